#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "configs/job.h"
#include "configs/plan_config.h"
#include "planner/device_balance.h"

namespace simrun {

// On no more GPUs a search has time for what it leaves out on more.
constexpr std::int64_t few_gpus = 64;

// How context-parallel ranks attend to whole sequences, where the job leaves that open.
struct AttentionExchange {
  std::optional<ContextExchange> kind;                         // nothing: as the job has it
  std::int64_t a2a_size = 1;                                   // of a2a_p2p: ranks that exchange heads
  auto operator<=>(const AttentionExchange&) const = default;  // NOLINT(modernize-use-nullptr)
};

// What makes no difference to how a job is split: searches try it on the best splits alone, by simulation.
struct SplitTuning {
  std::string rank_order = {};   // "": as the job has it
  std::int64_t bucket_size = 0;  // elements; 0: as the job has it
  // With ZeRO-3, how long gathered weights stay: 0 as the job has it, 1 until the backward pass
  // (reshard_after_forward: false), 2 through the step (reshard_after_backward: false as well).
  int gathered_stay = 0;
  auto operator<=>(const SplitTuning&) const = default;  // NOLINT(modernize-use-nullptr)
};

// One way to run a job on its cluster: what Megatron-LM's flags of the same names say.
struct Candidate {
  std::int64_t tensor = 1, context = 1, pipeline = 1, virtual_stages = 1;
  std::int64_t expert = 1, expert_tensor = 1;
  std::int64_t data = 1;  // follows from the others
  std::int64_t micro_batch = 1;
  int zero_stage = 0;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  std::string schedule;  // "" on one pipeline rank
  // Gradients are reduced and parameters gathered behind passes, where the job itself does not say so.
  bool overlaps = false;
  // Tensor-parallel ranks hold whole sequences, though these would split: sums of activations are reduced
  // once, where otherwise they are scattered and gathered, and a backward pass gathers them again.
  bool whole_sequences = false;
  AttentionExchange exchange = {};
  SplitTuning tuning = {};
  // Over devices of several kinds.
  DeviceBalance balance = {};
  bool is_as_written = false;  // the job itself, whatever else stands here
  auto operator<=>(const Candidate&) const = default;
  std::int64_t microbatches(std::int64_t global_batch) const { return global_batch / (data * micro_batch); }
};

// "tp 8 pp 4 x 2 dp 16 mbs 1 zero 1 recompute full interleaved_1f1b"
std::string describe(const Candidate& candidate);

// Calls `visit` with every candidate whose sizes divide, within the limits, always in the same order;
// none is kept. Tensor and expert-tensor parallel stay inside a node, or an NVLink domain, unless they are
// fixed; a part of a sequence has at least 2,048 tokens, 512 where GPUs outnumber sequences, unless that is
// fixed; microbatches hold at most 64 sequences; sequence parallel is on wherever there is tensor parallel
// and the sequence splits: it moves as much and saves memory (Korthikanti et al. 2022, section 4.2.2), but
// for the variants of the best (planner/candidate_variants.h). What only the loader's other rules refuse is
// still among them.
void for_each_candidate(const Job& job, const PlanConfig& limits,
                        const std::function<void(const Candidate&)>& visit);

// Whether a sequence of the job, and of its decoder, splits over so many tensor- and context-parallel ranks
// (in two zigzag blocks each): where it does not, tensor-parallel ranks hold whole sequences.
bool takes_sequence_parallel(const Job& job, std::int64_t tensor, std::int64_t context);

// Whether the candidate's tensor-parallel ranks divide the sequences between.
bool takes_sequence_parallel(const Job& job, const Candidate& candidate);

// The word of cp_comm_type.
const char* exchange_word(ContextExchange kind);

// How the layers of the job's model lie on so many (virtual) stages: as equal as they can be, the stages with
// the embedding and the loss being the first to have one less. Empty: there are more stages than layers.
std::vector<StageContent> balanced_stages(const Job& job, std::int64_t stages);

// Whether the parameter gathers of the candidate may be overlapped, as the job may ask for: with ZeRO-3 they
// always are, without ZeRO there are none, and ZeRO-1's are only beside reductions that are.
bool may_overlap_gathers(const Job& job, const Candidate& candidate);

// The same with `overlaps` turned where the limits leave that open and it makes a difference; else nothing.
std::optional<Candidate> with_other_overlap(const Job& job, const PlanConfig& limits, Candidate candidate);

// Whether the instances of the distributed optimizer that the job asks for divide the candidate's ranks, and
// cut no group of experts.
bool has_instances(const Job& job, const Candidate& candidate);

// The job's ranks as the candidate splits them: what the loader would make of its keys, as far as the costs
// of passes and steps depend on it.
Job with_candidate(Job job, const Candidate& candidate);

}  // namespace simrun
