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

// Of a forward pass full recompute repeats at least so much: not what follows the layers, nor what no
// gradient needs.
constexpr double recomputed = 0.5;

// Of one microbatch through the whole model.
double forward_s(const PassCosts& costs) {
  double seconds = costs.embedding.forward_s + costs.loss.forward_s;
  for (const std::size_t kind : costs.kind_of) seconds += costs.kinds[kind].forward_s;
  return seconds;
}

double seconds_of(const PassCosts& costs) {
  double seconds = costs.embedding.backward_s + costs.loss.backward_s;
  for (const std::size_t kind : costs.kind_of) seconds += costs.kinds[kind].backward_s;
  return forward_s(costs) + seconds;
}

PartCost sum(PartCost of, const PartCost& with) {
  of.forward_s += with.forward_s;
  of.backward_s += with.backward_s;
  of.pass_peak_bytes = std::max(of.pass_peak_bytes, of.held_bytes + with.pass_peak_bytes);
  of.held_bytes += with.held_bytes;
  of.put_off_bytes += with.put_off_bytes;
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
    rank = sum(rank, stages[s]);
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

// Forward and backward of a microbatch on all stages of the slowest rank.
double slowest_pass_s(const std::vector<PartCost>& ranks) {
  double slowest = 0;
  for (const PartCost& rank : ranks) slowest = std::max(slowest, rank.forward_s + rank.backward_s);
  return slowest;
}

// Microbatches of each of a pipeline rank's virtual stages that it holds when it holds most: forward passes
// take them in groups as large as the pipeline, one stage after the other.
std::vector<double> in_flight(const Candidate& candidate, double microbatches, std::int64_t rank) {
  const auto p = static_cast<double>(candidate.pipeline), v = static_cast<double>(candidate.virtual_stages);
  std::vector<double> held(static_cast<std::size_t>(candidate.virtual_stages), 0);
  if (candidate.schedule == "gpipe" || candidate.schedule == "looped_bfs")
    return std::vector<double>(held.size(), microbatches);
  // What weight gradients were put off of is held as long.
  if (candidate.schedule == "zb_v" || candidate.schedule == "zb_h1")
    return std::vector<double>(held.size(), std::min(microbatches, p));
  const double behind = p - static_cast<double>(rank) - 1;
  double left = candidate.schedule == "interleaved_zb" ? v * p
                : candidate.virtual_stages == 1        ? behind + 1
                                                       : 2 * behind + (v - 1) * p + 1;
  left = std::min(left, microbatches * v);
  for (std::size_t stage = 0; left > 0; stage = (stage + 1) % held.size()) {
    const double group = candidate.virtual_stages == 1 ? left : std::min(left, p);
    held[stage] += group;
    left -= group;
  }
  return held;
}

// Seconds from microbatch to microbatch where those in flight wait for one another: each is held from its
// forward pass on a rank until its backward pass there, and so many at once (Little's law).
double period_s(const Candidate& candidate, double microbatches, const std::vector<PartCost>& stages,
                double send_s) {
  const auto p = static_cast<std::size_t>(candidate.pipeline);
  const bool puts_off = puts_off_weight_gradients(candidate);
  std::vector<double> on_rank(p, 0);
  double way = -2 * send_s;
  for (std::size_t s = stages.size(); s-- > 0;) {
    // Weight gradients take about as long as the forward pass.
    way += stages[s].backward_s + (puts_off ? 0 : stages[s].forward_s) + 2 * send_s;
    on_rank[s % p] += way;
  }
  double period = 0;
  for (std::size_t rank = 0; rank < p; ++rank) {
    double held = 0;
    for (const double of_stage : in_flight(candidate, microbatches, static_cast<std::int64_t>(rank)))
      held += of_stage;
    if (puts_off) held = std::max(held - static_cast<double>(rank), 1.0);
    period = std::max(period, on_rank[rank] / held);
  }
  return period;
}

// Passes of a step: the slowest rank's work, and the way of the first microbatch there and of the last one
// back. Narayanan et al. 2021 (arXiv 2104.04473), section 2.2; Qi et al. 2023 (arXiv 2401.10241), section 3.
double passes_s(const Candidate& candidate, double microbatches, const std::vector<PartCost>& stages,
                double send_s) {
  const double pass_s = slowest_pass_s(rank_costs(stages, candidate.pipeline));
  if (candidate.pipeline == 1) return microbatches * pass_s;
  const auto others = static_cast<double>(candidate.pipeline - 1);
  double fill = 0, forward = 0, backward = 0;
  for (const PartCost& stage : stages) forward += stage.forward_s, backward += stage.backward_s;
  if (candidate.virtual_stages == 1)
    fill = forward + backward - pass_s;
  else
    fill = others * (pass_s / static_cast<double>(candidate.virtual_stages));
  if (puts_off_weight_gradients(candidate)) fill *= std::max(backward - forward, 0.0) / (backward + forward);
  const double behind_first = std::max(microbatches - static_cast<double>(candidate.pipeline), 0.0);
  const double waits = std::max(period_s(candidate, microbatches, stages, send_s) - pass_s, 0.0);
  return microbatches * pass_s + fill + behind_first * waits +
         2 * static_cast<double>(stages.size() - 1) * send_s;
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
  const bool puts_off = puts_off_weight_gradients(candidate);
  double peak = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<double> held = in_flight(candidate, microbatches, static_cast<std::int64_t>(rank));
    const double put_off = puts_off ? std::min(microbatches, static_cast<double>(rank + 1)) : 0;
    double bytes = 0, within_pass = 0;
    for (std::size_t chunk = 0; chunk < held.size(); ++chunk) {
      const PartCost& stage = stages[chunk * ranks.size() + rank];
      bytes += held[chunk] * stage.held_bytes;
      bytes += put_off * (stage.put_off_bytes - stage.held_bytes) / static_cast<double>(held.size());
      within_pass = std::max(within_pass, stage.pass_peak_bytes - stage.held_bytes);
    }
    peak = std::max(peak, kept_bytes(costs, candidate, ranks[rank]) + bytes + within_pass);
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
    part.put_off_bytes *= times;
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

// Recompute makes no pass shorter. Its passes without it, spread evenly over pipeline ranks that never wait;
// 0 where those are not known, or are not worth pricing.
double Estimator::least_s(const Candidate& candidate) {
  Candidate of = candidate;
  of.recompute = RecomputeGranularity::none;
  if (too_large(of)) return 0;
  const PassCosts* passes = passes_of(of);
  if (passes == nullptr) return 0;
  double seconds = seconds_of(*passes);
  if (candidate.recompute == RecomputeGranularity::full) seconds += recomputed * forward_s(*passes);
  return seconds * static_cast<double>(candidate.microbatches(job_.training.global_batch_size)) /
         static_cast<double>(candidate.pipeline);
}

std::optional<Estimate> Estimator::estimate(const Candidate& candidate, double most_s) {
  if (std::isfinite(most_s) && candidate.recompute != RecomputeGranularity::none)
    if (const double least = least_s(candidate); least > most_s)
      return Estimate{.step_s = least, .is_bound = true};
  if (const std::optional<Estimate> large = too_large(candidate)) return large;
  const PassCosts* passes = passes_of(candidate);
  if (passes == nullptr) return std::nullopt;
  std::vector<PartCost> stages = stage_costs(job_, candidate, *passes);
  if (stages.empty()) return std::nullopt;
  const auto microbatches = static_cast<double>(candidate.microbatches(job_.training.global_batch_size));
  Estimate estimate{0, peak_bytes(*passes, candidate, microbatches, stages), passes->room_bytes};
  if (estimate.peak_bytes > hopeless * estimate.room_bytes) return estimate;
  // No rank waits, and nothing is gathered.
  const double least = microbatches * slowest_pass_s(rank_costs(stages, candidate.pipeline));
  if (least > most_s) {
    estimate.step_s = least;
    estimate.is_bound = true;
    return estimate;
  }
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
