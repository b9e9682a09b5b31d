#include "planner/estimate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "planner/made_if_divisible.h"

namespace simrun {
namespace {

constexpr double hopeless = 1.2;  // x the room: no step of it is timed
// Sequences of a microbatch that are priced: 1, 2, 4. Others keep the kernels of the largest.
constexpr std::int64_t largest_probed = 4;
bool is_probed(std::int64_t micro_batch) {
  return micro_batch <= largest_probed && std::has_single_bit(static_cast<std::uint64_t>(micro_batch));
}

PartCost sum(PartCost of, const PartCost& with) {
  of.forward_s += with.forward_s;
  of.backward_s += with.backward_s;
  of.pass_peak_bytes = std::max(of.pass_peak_bytes, of.held_bytes + with.pass_peak_bytes);
  of.held_bytes += with.held_bytes;
  of.dense_elements += with.dense_elements;
  of.expert_elements += with.expert_elements;
  return of;
}

// By virtual stage, in model order.
std::vector<PartCost> stage_costs(const Job& job, const Candidate& candidate, const PassCosts& costs) {
  std::vector<PartCost> stages;
  std::size_t layer = 0;
  for (const StageContent& content : balanced_stages(job, candidate.pipeline * candidate.virtual_stages)) {
    PartCost stage;
    if (content.embedding) stage = sum(stage, costs.embedding);
    for (std::int64_t i = 0; i < content.layers; ++i) stage = sum(stage, costs.kinds[costs.kind_of[layer++]]);
    if (content.loss) stage = sum(stage, costs.loss);
    if (content.embedding && content.loss) stage.dense_elements -= costs.tied_elements;
    stages.push_back(stage);
  }
  return stages;
}

// One pipeline rank: all its virtual stages.
std::vector<PartCost> rank_costs(const std::vector<PartCost>& stages, std::int64_t ranks) {
  std::vector<PartCost> costs(static_cast<std::size_t>(ranks));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    PartCost& rank = costs[s % costs.size()];
    const double peak = std::max(rank.pass_peak_bytes, stages[s].pass_peak_bytes);
    rank = sum(rank, stages[s]);
    rank.pass_peak_bytes = peak;  // of one pass
  }
  return costs;
}

// ZeRO-3 gathers the weights of a stage in front of both passes, beside compute; ZeRO-2 and 3 scatter the
// gradients behind every backward pass. The next forward pass hides that, but not where it waits for gathers
// that queue behind it.
void add_sharding(const Candidate& candidate, const StepPrices& step, std::vector<PartCost>& stages) {
  if (candidate.zero_stage < 2) return;
  const bool gathers = candidate.zero_stage == 3;
  for (PartCost& stage : stages) {
    const double gather = gathers ? step.gather_s(stage.dense_elements, stage.expert_elements) : 0;
    const double reduce = step.reduce_s(stage.dense_elements, stage.expert_elements);
    stage.forward_s = std::max(stage.forward_s, gather);
    stage.backward_s =
        std::max(stage.backward_s, gather) + (gathers ? reduce : std::max(reduce - stage.forward_s, 0.0));
  }
}

bool puts_off_weight_gradients(const Candidate& candidate) {
  return candidate.schedule.starts_with("zb") || candidate.schedule == "interleaved_zb";
}

struct Slowest {
  double pass_s = 0;   // forward and backward of a microbatch on all stages of one rank
  double chunk_s = 0;  // of the slowest stage
};

Slowest slowest_of(const std::vector<PartCost>& stages, const std::vector<PartCost>& ranks) {
  Slowest slowest;
  for (const PartCost& rank : ranks)
    slowest.pass_s = std::max(slowest.pass_s, rank.forward_s + rank.backward_s);
  for (const PartCost& stage : stages)
    slowest.chunk_s = std::max(slowest.chunk_s, stage.forward_s + stage.backward_s);
  return slowest;
}

// Passes of a step: the slowest rank's work, and the way of the first microbatch there and of the last one
// back. Narayanan et al. 2021 (arXiv 2104.04473), section 2.2; Qi et al. 2023 (arXiv 2401.10241), section 3.
double passes_s(const Candidate& candidate, double microbatches, const std::vector<PartCost>& stages,
                double send_s) {
  const std::vector<PartCost> ranks = rank_costs(stages, candidate.pipeline);
  const Slowest slowest = slowest_of(stages, ranks);
  if (candidate.pipeline == 1) return microbatches * slowest.pass_s;
  const auto others = static_cast<double>(candidate.pipeline - 1);
  double fill = 0;
  if (candidate.virtual_stages == 1) {
    for (const PartCost& stage : stages) fill += stage.forward_s + stage.backward_s;
    fill -= slowest.pass_s;
  } else {
    fill = others * (slowest.pass_s / static_cast<double>(candidate.virtual_stages));
  }
  if (puts_off_weight_gradients(candidate)) fill /= 3;
  return microbatches * slowest.pass_s + fill + 2 * others * send_s;
}

// (stage, microbatch) activations that pipeline rank `rank` holds at most.
double in_flight(const Candidate& candidate, double microbatches, std::int64_t rank) {
  const auto p = static_cast<double>(candidate.pipeline), v = static_cast<double>(candidate.virtual_stages);
  const double all = microbatches * v, r = static_cast<double>(rank);
  if (candidate.schedule == "gpipe" || candidate.schedule == "looped_bfs") return all;
  if (candidate.virtual_stages == 1) return std::min(all, p - r);
  if (candidate.schedule == "zb_v") return std::min(all, 2 * p);
  return std::min(all, 2 * (p - r - 1) + (v - 1) * p + 1);
}

double kept_bytes(const PassCosts& costs, const Candidate& candidate, const PartCost& rank) {
  const double dense = static_cast<double>(candidate.data * candidate.context);
  const double experts = std::max(1.0, dense * static_cast<double>(candidate.tensor) /
                                           static_cast<double>(candidate.expert * candidate.expert_tensor));
  const auto bytes = [&](double per_element, bool is_sharded) {
    return per_element * (rank.dense_elements / (is_sharded ? dense : 1) +
                          rank.expert_elements / (is_sharded ? experts : 1));
  };
  // Weight gradients that are put off keep what they read and add to whole.
  const bool keeps_shards = !puts_off_weight_gradients(candidate);
  return bytes(costs.weight_bytes, candidate.zero_stage >= 3 && keeps_shards) +
         bytes(costs.gradient_bytes, candidate.zero_stage >= 2 && keeps_shards) +
         bytes(costs.state_bytes, candidate.zero_stage >= 1);
}

double peak_bytes(const PassCosts& costs, const Candidate& candidate, double microbatches,
                  const std::vector<PartCost>& stages) {
  const std::vector<PartCost> ranks = rank_costs(stages, candidate.pipeline);
  double peak = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const double held = ranks[rank].held_bytes / static_cast<double>(candidate.virtual_stages);
    const double others = in_flight(candidate, microbatches, static_cast<std::int64_t>(rank)) - 1;
    peak = std::max(peak,
                    kept_bytes(costs, candidate, ranks[rank]) + ranks[rank].pass_peak_bytes + held * others);
  }
  return peak;
}

// Behind the passes: reductions and gathers that passes do not hide, and the optimizer.
double end_s(const Job& job, const Candidate& candidate, const PartCost& rank, const StepPrices& step) {
  const double elements = rank.dense_elements + rank.expert_elements;
  const double copies =
      candidate.zero_stage >= 1 ? static_cast<double>(candidate.data * candidate.context) : 1;
  double end = step.update_s_per_element * elements / copies;
  if (candidate.data * candidate.context == 1 || candidate.zero_stage >= 2) {
    if (candidate.zero_stage == 2) end += step.gather_s(rank.dense_elements, rank.expert_elements);
    return end;
  }
  const double reduce = step.reduce_s(rank.dense_elements, rank.expert_elements);
  // The last bucket is complete only when the last pass is.
  const double last_bucket = reduce / std::max(std::ceil(elements / step.bucket), 1.0);
  const bool overlaps = job.optimizer.overlap_grad_reduce;
  end += overlaps ? std::max(reduce - rank.backward_s, last_bucket) : reduce;
  if (candidate.zero_stage == 1) end += step.gather_s(rank.dense_elements, rank.expert_elements);
  return end;
}

}  // namespace

const StepPrices* SharedStepPrices::of(const Key& key, const std::function<StepPrices()>& make) {
  Slot* slot = nullptr;
  {
    const std::lock_guard lock(mutex_);
    slot = &slots_[key];
  }
  std::call_once(slot->once, [&] { slot->prices = made_if_divisible(make); });
  return slot->prices ? &*slot->prices : nullptr;
}

// With the plainest of schedules and sharding: what is asked for are the costs that those do not change.
Job Estimator::loaded(Candidate candidate) const {
  candidate.virtual_stages = 1;
  candidate.zero_stage = std::min(candidate.zero_stage, 1);
  if (candidate.pipeline > 1) candidate.schedule = "1f1b";
  std::optional<Job> job = load_(candidate);
  if (!job) throw std::invalid_argument("the loader refuses " + describe(candidate));
  return std::move(*job);
}

// The loader is asked once for all sizes of microbatches.
PassCosts Estimator::probed(const Candidate& of) {
  Split& split = splits_[{of.tensor, of.context, of.expert, of.expert_tensor}];
  Candidate single = of;
  single.micro_batch = 1;
  const auto [job, is_new] = split.jobs.try_emplace(of.recompute);
  if (is_new) job->second = made_if_divisible([&] { return loaded(single); });
  if (!job->second) throw std::invalid_argument("the loader refuses " + describe(single));
  return split.probes.costs(*job->second, of);
}

const PassCosts* Estimator::passes_of(const Candidate& of) {
  const auto [slot, is_new] = passes_.try_emplace(PassKey{of.tensor, of.context, of.expert, of.expert_tensor,
                                                          of.micro_batch, static_cast<int>(of.recompute)});
  if (is_new && !is_probed(of.micro_batch))
    slot->second = on_line(of);
  else if (is_new)
    slot->second = made_if_divisible([&] { return probed(of); });
  return slot->second ? &*slot->second : nullptr;
}

std::optional<PassCosts> Estimator::on_line(Candidate of) {
  constexpr std::int64_t apart = largest_probed / 2;
  const auto sequences = static_cast<double>(of.micro_batch - largest_probed);
  of.micro_batch = apart;
  const PassCosts* smaller = passes_of(of);
  of.micro_batch = largest_probed;
  const PassCosts* larger = passes_of(of);
  if (smaller == nullptr || larger == nullptr) return std::nullopt;
  return pass_costs_on_line(*smaller, *larger, sequences / static_cast<double>(apart));
}

// Context-parallel ranks sum gradients as data-parallel ones do. Whoever asks first, the job is the same.
const StepPrices* Estimator::steps_of(const Candidate& candidate) {
  Candidate of = candidate;
  of.micro_batch = 1;
  of.recompute = RecomputeGranularity::none;
  if (job_.training.global_batch_size % (of.data * of.context) == 0) {
    of.data *= of.context;
    of.context = 1;
  }
  return steps_.of({of.tensor, of.context, of.pipeline, of.expert, of.expert_tensor, of.zero_stage > 0},
                   [&] { return step_prices(loaded(of), of); });
}

// Activations grow with the microbatch as they are; what is far too large for it need not be priced.
std::optional<Estimate> Estimator::too_large(const Candidate& candidate) {
  if (candidate.micro_batch == 1) return std::nullopt;
  Candidate single = candidate;
  single.micro_batch = 1;
  if (job_.training.global_batch_size % single.data != 0) return std::nullopt;
  const PassCosts* passes = passes_of(single);
  if (passes == nullptr) return std::nullopt;
  PassCosts scaled = *passes;
  const auto times = static_cast<double>(candidate.micro_batch);
  const auto scale = [&](PartCost& part) {
    part.held_bytes *= times;
    part.pass_peak_bytes *= times;
  };
  for (PartCost& kind : scaled.kinds) scale(kind);
  scale(scaled.embedding);
  scale(scaled.loss);
  const std::vector<PartCost> stages = stage_costs(job_, candidate, scaled);
  if (stages.empty()) return std::nullopt;
  const auto microbatches = static_cast<double>(candidate.microbatches(job_.training.global_batch_size));
  const Estimate estimate{0, peak_bytes(scaled, candidate, microbatches, stages), scaled.room_bytes};
  if (estimate.peak_bytes <= hopeless * estimate.room_bytes) return std::nullopt;
  return estimate;
}

std::optional<Estimate> Estimator::estimate(const Candidate& candidate) {
  if (const std::optional<Estimate> large = too_large(candidate)) return large;
  const PassCosts* passes = passes_of(candidate);
  if (passes == nullptr) return std::nullopt;
  std::vector<PartCost> stages = stage_costs(job_, candidate, *passes);
  if (stages.empty()) return std::nullopt;
  const auto microbatches = static_cast<double>(candidate.microbatches(job_.training.global_batch_size));
  Estimate estimate{0, peak_bytes(*passes, candidate, microbatches, stages), passes->room_bytes};
  if (estimate.peak_bytes > hopeless * estimate.room_bytes) return estimate;
  const StepPrices* step = steps_of(candidate);
  if (step == nullptr) return std::nullopt;
  add_sharding(candidate, *step, stages);
  PartCost largest;
  for (const PartCost& rank : rank_costs(stages, candidate.pipeline))
    if (rank.dense_elements + rank.expert_elements > largest.dense_elements + largest.expert_elements)
      largest = rank;
  estimate.step_s = passes_s(candidate, microbatches, stages, step->send_s(candidate)) +
                    end_s(job_, candidate, largest, *step);
  return estimate;
}

}  // namespace simrun
