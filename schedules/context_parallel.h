#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/chunk_code.h"
#include "schedules/device_mesh.h"
#include "schedules/layout.h"
#include "schedules/plan.h"

// Context parallelism: every operator but attention works on its rank's part of the sequence, by the rule
// `sequence: cp`. Attention gets the whole of it in one of Megatron-LM's ways (cp_comm_type):
//
//   a2a         Layouts alone: attention's heads are split over tp and cp, its sequence is whole, so packed
//   q, k,
//               v come by one all-to-all and the context goes back by another (Jacobs et al. 2023, arXiv
//               2309.14509, section 3.2).
//   all_gather  q and k, v are taken apart; attention's queries are split over cp, its keys are whole, so k
//   and v
//               are gathered, gathered again by the backward pass, and their gradients reduce-scattered
//               (Grattafiori et al. 2024, arXiv 2407.21783, section 3.3.2). Nothing overlaps with the gather.
//   p2p         Neither queries nor keys are ever whole: attention is a ring of steps
//   (schedules/ring_attention.h). a2a+p2p     a2a over the inner ranks, p2p over the outer ones (Fang and
//   Zhao 2024, arXiv 2405.07719).
namespace simrun {

// Takes packed q, k, v apart in front of every attention: operator `split_qkv`, a MAP. Megatron-LM copies as
// much: q as it drops the group's k and v, k and v as Transformer Engine lays them side by side. Latent
// attention's k and v are apart already. Attention may then have its queries split, and in a ring its keys
// where its queries are.
enum class KeysOfAttention : bool { whole, in_a_ring };
Graph with_separate_keys(Graph graph, KeysOfAttention keys);

// Share of a block of scores that a mask leaves on each of `ranks`, in parts per million: a continuous area,
// as computed_share, so that the blocks of all ranks add up to the whole attention's.
std::vector<std::int64_t> block_work(const CausalMask& mask, std::int64_t sequence, const SequencePart& part,
                                     std::int64_t ranks);

// How a job's attention spans its context-parallel ranks.
class ContextParallelism {
 public:
  ContextParallelism() = default;  // within one attention every rank has the whole sequence
  ContextParallelism(const Job& job, const DeviceMesh& mesh);

  bool separates_keys() const { return !part_.axes.empty(); }
  bool is_ring() const { return separates_keys() && !part_.whole_keys; }
  std::int64_t ranks() const { return ranks_; }  // that share the sequence within one attention
  const std::vector<AxisId>& axes() const { return part_.axes; }
  std::uint8_t stream_in() const { return stream_in_; }  // of a ring
  std::uint8_t stream_out() const { return stream_out_; }

  // Which part of the sequence a step runs attention on, and how much work that is. `key_offset`: in a ring,
  // as in SequencePart.
  void describe(CodeStep& attention, const Graph& graph, std::int32_t key_offset = 0);
  // Work table of a step that runs on the ranks where this attention has anything to do.
  std::int32_t where_launched(const CodeStep& attention);

  const std::vector<ExtentTable>& tables() const { return tables_; }

  // Says of every buffer of a plan which of its dimensions are dealt out in zigzag blocks (Buffer::split).
  void mark_zigzag(Plan& plan) const;

 private:
  std::int32_t table_of(const std::vector<std::int64_t>& work);

  SequencePart part_;  // without key_offset
  std::int64_t ranks_ = 1;
  std::uint8_t stream_in_ = 0, stream_out_ = 0;
  std::vector<ExtentTable> tables_;
  std::map<std::vector<std::int64_t>, std::int32_t> known_;
};

}  // namespace simrun
