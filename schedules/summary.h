#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// One GPU of a pipeline rank whose GPUs have unequal work.
struct GpuLoad {
  std::int64_t gpu = 0;  // its number in the cluster; the first of those with the same times
  double compute_s = 0, bubble_s = 0, exposed_comm_s = 0;
};

// Of one pipeline rank. Times are means over its GPUs and sum to the step.
struct StageSummary {
  std::int32_t pipeline_rank = 0;
  std::int64_t gpus = 0;
  bool serves = false;  // dedicated parameter servers, which hold no part of the model's passes
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;  // further ones of multi-token prediction
  bool embedding = false;
  bool loss = false;
  std::int64_t parameters = 0;  // of the unsharded model held by this pipeline rank's chunks
  // Of its GPU with the least memory to spare: where all are of one kind, the fullest.
  std::int64_t peak_memory_bytes = 0;
  std::int64_t memory_limit_bytes = 0;                // of that GPU
  std::array<std::int64_t, category_count> memory{};  // at the peak; sums to it
  std::string gpu;                                    // its kind; several: "4 a + 4 b"
  std::string fullest_gpu;                            // the kind of that GPU
  std::optional<HeldMemory> held;                     // of its fullest GPU, under the plan's framework
  double compute_s = 0, bubble_s = 0, exposed_comm_s = 0;
  std::array<double, bubble_cause_count> bubble_by_cause_s{};
  std::array<double, traffic_count> exposed_by_traffic_s{};
  std::array<double, traffic_count> hidden_by_traffic_s{};
  GpuLoad busiest, idlest;  // its GPUs that compute longest and shortest, the first of equals
  bool has_imbalance() const { return busiest.compute_s > idlest.compute_s; }
};

// One directed link, or `multiplicity` of them with equal figures: each moves `bytes`.
struct LinkSummary {
  std::string name;
  std::int64_t multiplicity = 1;
  double bandwidth = 0;  // bytes/s that transfers get
  std::int64_t bytes = 0;
  double busy_fraction = 0;     // of the step: at least one transfer moves bytes over it
  double contended_s = 0;       // two or more transfers of different exchanges do
  double mean_utilisation = 0;  // bytes / (bandwidth x step)
};

// The GPU with most live bytes of the plan. Of one kind of GPU that is also the one with least to spare.
struct LargestPeak {
  std::int64_t bytes = 0, limit_bytes = 0;  // its own limit
  std::string gpu;                          // its kind
};

// Every number that simrun reports, defined once. Times are seconds; means are over GPUs; fractions are of 1.
//
//   step_time_s       the steady step, from the first instruction of any rank to the last
//   first_step_s      the first step: no parameter gather from a step before
//   compute_s + bubble_s + exposed_comm_s = step_time_s (means over ranks of each rank's exact split)
//   bubble_fraction   bubble_s / step_time_s; uniform stages, free communication: (p-1)/(v m + p-1)
//   exposed_comm_s    a tp, cp, ep, dp collective or an offload is in flight and no compute runs
//   hidden_comm_s     communication in flight while compute runs
//   model_flops       6 x matmul parameters (LM head included) + 12 L s heads head_dim per token: full
//   attention
//                     matrix, no recompute
//   hardware_flops    the FLOPs that the plan executes, recompute and padding included, attention counted
//   full mfu, hfu          those / (step x GPUs x the dense datasheet peak of the matmul type; of several
//   kinds of GPU
//                     the sum of their peaks)
//   peak_memory_bytes live bytes of the plan on the worst rank, at one instant; `fits` = it is at most
//                     memory_limit_bytes. Of several kinds of GPU the worst is the one with least to spare
//   memory_limit_bytes memory_bytes - reserved_bytes. Under a framework whose allocator is known: what
//   programs
//                     get of the device less what the worst rank holds beside those bytes (HeldMemory), so
//                     that `fits` says whether HeldMemory::device_bytes are there
//   contention_bound  what ignoring that transfers share links can change, as a share of the step; 0 where it
//   is
//                     not ignored
struct Summary {
  double step_time_s = 0, first_step_s = 0;
  bool counts_images = false;  // tokens are images, where the model reads nothing else
  double tokens_per_s = 0, tokens_per_s_per_gpu = 0;
  double model_flops_per_step = 0, hardware_flops_per_step = 0;
  double model_tflops_per_gpu = 0, hardware_tflops_per_gpu = 0;
  double mfu = 0, hfu = 0;
  double compute_s = 0, bubble_s = 0, bubble_fraction = 0, exposed_comm_s = 0, hidden_comm_s = 0;
  std::array<double, bubble_cause_count> bubble_by_cause_s{};
  std::array<double, traffic_count> exposed_by_traffic_s{};
  std::array<double, traffic_count> hidden_by_traffic_s{};
  std::int64_t parameters = 0;
  std::int64_t peak_memory_bytes = 0;
  std::int32_t peak_pipeline_rank = 0;
  std::string peak_gpu;  // the kind of the GPU with the least memory to spare
  std::int64_t memory_limit_bytes = 0;
  bool fits = false;
  LargestPeak largest_peak;
  // Offload, of the fullest node: what its GPUs' ranks have in its memory and on its drives. 0: nothing.
  std::int64_t host_memory_bytes = 0, host_memory_limit_bytes = 0;
  std::int64_t nvme_bytes = 0, nvme_limit_bytes = 0;
  bool host_fits = true;
  std::vector<StageSummary> stages;  // by pipeline rank
  std::vector<LinkSummary> links;    // those that moved bytes, busiest first
  std::string engine;
  std::string engine_reason;  // why that one ran: a clause
  double contention_bound = 0;
  std::int64_t ranks = 0;
  std::string config_sha256;
};

Summary summarize(const Plan& plan, const Timeline& timeline);

// The GPU of a pipeline rank with the highest peak, the first of equals: the place in Timeline::ranks is not
// the pipeline rank where its GPUs differ. Throws std::out_of_range if the Timeline has none of that rank.
const RankTimeline& fullest_gpu(const Timeline& timeline, std::int32_t pipeline_rank);

}  // namespace simrun
