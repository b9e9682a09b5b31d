#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "configs/job.h"
#include "configs/load_job.h"
#include "planner/alpa_graph.h"
#include "planner/collective_prices.h"
#include "planner/operator_choice.h"
#include "planner/plan_progress.h"

namespace simrun {

// One pipeline stage of a plan.
struct AlpaStage {
  std::int64_t first_layer = 0, last_layer = 0;  // [first, last)
  LogicalMesh mesh;
  double seconds = 0;           // forward and backward of a microbatch, as the dynamic program has it
  double bytes = 0;             // weights, gradients, optimizer state and activations in flight
  double microbatch_bytes = 0;  // of them the activations of one microbatch
};

struct AlpaPlan {
  std::int64_t pipeline = 1, microbatches = 1, sequences = 1;  // of a microbatch over a whole stage
  std::int64_t tensor = 1;  // tensor_model_parallel_size: as many ranks share sequences that are too few
  int zero_stage = 0;
  std::string recompute = "";  // none, selective or full; empty: as the job has it
  std::string schedule = "1f1b";
  std::int64_t virtual_stages = 1;   // of a rank, of equally many layers each: then `stages` has them
  bool hides_data_parallel = false;  // the estimate has what data-parallel ranks exchange as hidden
  bool unlike = false;               // stages of unlike size, whose meshes are tp x dp
  std::vector<AlpaStage> stages;
  OwnAxes axes;  // of the own mesh
  std::vector<OperatorChoice> operators;
  double estimate_s = 0;  // sum of stages and handovers + (microbatches - 1) x the slowest
};

struct AlpaOptions {
  std::int64_t least_stages = 1;
  std::int64_t most_stages = 1'000'000;  // 1: the intra-operator level alone
  std::int64_t microbatches = 0;         // per step; 0: what is best
  std::size_t plans = 8;  // best by estimate, one per pipeline size, microbatches, ZeRO stage and recompute
  double within = 1.3;    // x the best estimate: of these plans
  std::int64_t most_clusters = 48;       // of layers, that stages are made of: stage_units()
  std::vector<int> stage_ends = {};      // of layers, where the stages are given; empty: searched
  std::optional<LogicalMesh> mesh = {};  // of every stage; none: any of its devices
  // By given stage (stage_ends), x tensor- and y data-parallel ranks, of unlike size; for StageSearch with
  // SearchPoint::unlike.
  std::vector<LogicalMesh> stage_meshes = {};
  std::size_t buckets = 128;    // of memory, ChoiceLimits
  double memory_share = 0.93;   // of the GPU's, for what is planned; the rest is for what comes and goes
  std::int64_t max_memory = 0;  // bytes of a GPU, at most what it has; 0: what it has
  std::vector<std::int64_t> pipelines = {};  // sizes; empty: all
  std::vector<std::int64_t> zero_stages =
      {};                // empty: 1; 2 and 3 with one stage and where memory asks for it
  unsigned threads = 0;  // 0: one per processor; the plans are the same for any number
};

// A job as plans are searched for it.
struct AlpaVariant {
  std::string recompute;  // AlpaPlan
  Job job;
};

// Both levels of Alpa (Zheng et al. 2022) over a job's cluster: for every variant, every pipeline size with
// equal sub-meshes and every number of microbatches, stages of any number of layers, each with its own
// logical mesh and layout by operator; ZeRO-1, of which Alpa's all-reduces turned into reduce-scatters are a
// case, and where there is one stage, or memory asks for it, ZeRO-2 and 3. For the microbatches of the best
// of them also stages of unlike size. The other keys (model, global batch, optimizer) stay as the job has
// them. Best estimate first, of every variant at least one, and behind these the same with what data-parallel
// ranks exchange as hidden, where any of it is: what whole passes hide, no sum over operators knows, so the
// simulator decides. What was found so far where `progress` stopped it. Throws std::invalid_argument, in
// words, for models whose layers are not a chain, and for jobs with packed documents, LoRA, fp8 or parameter
// servers. The prices are those of the cluster, which is the same for all variants.
std::vector<AlpaPlan> alpa_plans(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                                 CollectivePrices& collectives, const PlanProgress& progress);
std::vector<AlpaPlan> alpa_plans(const Job& job, const AlpaOptions& options = {});

// "pipeline 6, 15 microbatches, ZeRO-1, recompute full"
std::string alpa_name(const AlpaPlan& plan);

// What makes the plan of the job, as --set has it.
std::vector<Override> alpa_overrides(const AlpaPlan& plan);

// Of them what it says of recompute; empty where it has the job's own.
std::vector<Override> recompute_overrides(const AlpaPlan& plan);

}  // namespace simrun
