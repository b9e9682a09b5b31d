#include "planner/estimate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "planner/made_if_divisible.h"
#include "planner/pipeline_costs.h"

namespace simrun {
namespace {

// Sequences of a microbatch that are priced: 1, 2, 4, and of a job on so few GPUs that a search takes no time
// 3, which may be a twelfth off the line between its neighbours. Others keep the kernels of the largest.
constexpr std::int64_t largest_probed = 4;
bool is_probed(const Job& job, std::int64_t micro_batch) {
  return micro_batch <= largest_probed &&
         (std::has_single_bit(static_cast<std::uint64_t>(micro_batch)) || job.world_size() <= few_gpus);
}

// Passes that wait for the host take as long for more sequences, until their kernels do: through two such
// passes goes no line. Of less than so many times the seconds of half as many sequences the size itself is
// priced.
constexpr double least_growth = 1.5;

// Of a forward pass full recompute repeats at least so much: not what follows the layers, nor what no
// gradient needs.
constexpr double least_recomputed = 0.5;

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

// ZeRO-3 gathers the weights of a stage in front of both passes, beside compute; ZeRO-2 and 3 scatter the
// gradients behind every backward pass. The next forward pass hides that, but not where it waits for gathers
// that queue behind it. A rank with all layers scatters those of one beside the backward pass of the next.
// Whoever gathers weights casts them again; where all in front is frozen, no backward pass comes by.
PipelineCosts with_sharding(const Candidate& candidate, const StepPrices& step,
                            const PipelineCosts& pipeline) {
  if (candidate.zero_stage < 2) return pipeline;
  const bool gathers = candidate.zero_stage == 3;
  std::vector<PartCost> stages = pipeline.stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    PartCost& stage = stages[s];
    const std::size_t rank = pipeline_rank_of(candidate, s);
    const double dense = stage.dense_elements + stage.frozen_elements,
                 experts = stage.expert_elements + stage.frozen_expert_elements;
    const double gather = gathers ? step.gather_s(rank, dense, experts) : 0;
    const double reduce = step.reduce_s(rank, stage.dense_elements, stage.expert_elements);
    const double casts = gathers ? stage.cast_s : 0;
    const bool stops_early = stage.backward_s < 0.5 * stage.forward_s;
    const double again = stops_early ? 0 : gather;
    stage.forward_s = std::max(stage.forward_s + casts, gather);
    stage.input_s = std::max(stage.input_s + casts, again);
    stage.backward_s += stops_early ? 0 : casts;
    if (gathers && candidate.pipeline == 1)
      stage.backward_s = std::max(stage.backward_s, again + reduce);
    else
      stage.backward_s =
          std::max(stage.backward_s, again) + (gathers ? reduce : std::max(reduce - stage.forward_s, 0.0));
  }
  return with_ranks(std::move(stages), candidate);
}

// A pipeline rank at the end of a step.
struct RankAtEnd {
  std::size_t rank = 0;
  PartCost cost;             // of all its stages
  double tied_elements = 0;  // of its parameters those that other stages have, too
};

// Of parameters that were updated: what the next step's first pass does not hide of it, if it may.
double gather_s(const Job& job, const Candidate& candidate, const RankAtEnd& of, const StepPrices& step) {
  const double gather = step.gather_s(of.rank, of.cost.dense_elements, of.cost.expert_elements);
  const bool overlaps =
      (job.optimizer.overlap_param_gather || candidate.overlaps) && may_overlap_gathers(job, candidate);
  return overlaps ? std::max(gather - of.cost.forward_s, 0.0) : gather;
}

// Of word embeddings that several stages share. Their gradients are complete with the last pass of all, and
// the first and the last pipeline rank sum what each keeps of them.
double tied_s(const Candidate& candidate, double elements, const StepPrices& step) {
  if (!sums_tied(candidate) || elements == 0) return 0;
  const double copies =
      candidate.zero_stage >= 2 ? static_cast<double>(candidate.data * candidate.context) : 1;
  return step.tied_s(elements / copies);
}

// Of all that is not tied, as far as passes do not hide it; the tied rest begins when all passes are done.
double reduce_s(bool overlaps, const RankAtEnd& of, const StepPrices& step) {
  const double dense = of.cost.dense_elements - of.tied_elements;
  const double reduce = step.reduce_s(of.rank, dense, of.cost.expert_elements);
  const double tied = step.reduce_s(of.rank, of.tied_elements, 0);
  if (!overlaps) return reduce + tied;
  // The last bucket is complete only when the last pass is.
  const double buckets = std::ceil((dense + of.cost.expert_elements) / step.bucket);
  return std::max(reduce - of.cost.backward_s, reduce / std::max(buckets, 1.0)) + tied;
}

// Behind the passes: reductions and gathers that passes do not hide, and the optimizer.
double end_s(const Job& job, const Candidate& candidate, const RankAtEnd& of, const StepPrices& step) {
  const double elements = of.cost.dense_elements + of.cost.expert_elements;
  const std::int64_t copies = candidate.data * candidate.context;
  // Both ranks of a stage of DualPipe sum its gradients and divide its state.
  const auto all_copies = static_cast<double>(goes_both_ways(candidate) ? 2 * copies : copies);
  const double shards = candidate.zero_stage >= 1 ? all_copies : 1;
  double end = step.host_step_s + step.update_s_per_element * elements / shards +
               tied_s(candidate, of.tied_elements, step);
  if (copies == 1) return end;  // what two ranks alone exchange is not priced
  const double ring = (1 - 1 / all_copies) / (1 - 1 / static_cast<double>(copies));
  const OptimizerConfig& optimizer = job.optimizer;
  if (candidate.zero_stage < 2)
    end += ring * reduce_s(optimizer.overlap_grad_reduce || candidate.overlaps, of, step);
  if (candidate.zero_stage == 1 || candidate.zero_stage == 2)
    end += ring * gather_s(job, candidate, of, step);
  return end;
}

// Until the last pipeline rank is done: all wait for each other for the gradients' norm. Of those that lie on
// nodes alike the one with the most parameters stands for the others, but for those with tied embeddings.
double end_s(const Job& job, const Candidate& candidate, const std::vector<PartCost>& ranks,
             double tied_elements, const StepPrices& step) {
  const auto end = [&](std::size_t rank, double tied) {
    return end_s(job, candidate, {rank, ranks[rank], tied}, step);
  };
  if (ranks.size() == 1) return end(0, 0);
  double longest = end(0, tied_elements);
  if (sums_tied(candidate)) longest = std::max(longest, end(ranks.size() - 1, tied_elements));
  const auto elements = [&](std::size_t rank) {
    return ranks[rank].dense_elements + ranks[rank].expert_elements;
  };
  for (std::size_t way = 0; way < step.ranks.size(); ++way) {
    std::size_t largest = 0;
    for (std::size_t rank = way; rank < ranks.size(); rank += step.ranks.size())
      if (rank > 0 && (largest == 0 || elements(rank) > elements(largest))) largest = rank;
    const bool is_last = largest + 1 == ranks.size() && sums_tied(candidate);
    if (largest > 0 && !is_last) longest = std::max(longest, end(largest, 0));
  }
  return longest;
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

double least_pass_s(const PassCosts& plain, RecomputeGranularity recompute) {
  const bool is_full = recompute == RecomputeGranularity::full;
  return seconds_of(plain) + (is_full ? least_recomputed * forward_s(plain) : 0);
}

// With the plainest of schedules and sharding, ranks where they lie by themselves: what is asked for are the
// costs that those do not change.
Job Estimator::loaded(Candidate candidate) const {
  candidate.balance = {};
  candidate.virtual_stages = 1;
  candidate.zero_stage = std::min(candidate.zero_stage, 1);
  if (candidate.pipeline > 1) candidate.schedule = "1f1b";
  std::optional<Job> job = load_(candidate);
  if (!job) throw std::invalid_argument("the loader refuses " + describe(candidate));
  return std::move(*job);
}

// The loader is asked once for all sizes of microbatches.
PassCosts Estimator::probed(const Candidate& of) {
  Split& split =
      splits_[{of.tensor, of.context, of.expert, of.expert_tensor, of.whole_sequences, of.exchange}];
  Candidate single = of;
  single.micro_batch = 1;
  const auto [job, is_new] = split.jobs.try_emplace(of.recompute);
  if (is_new) job->second = made_if_divisible([&] { return loaded(single); });
  if (!job->second) throw std::invalid_argument("the loader refuses " + describe(single));
  return split.probes.costs(*job->second, of);
}

const PassCosts* Estimator::passes_of(const Candidate& of, std::int64_t micro_batch,
                                      RecomputeGranularity recompute) {
  const auto [slot, is_new] =
      passes_.try_emplace(PassKey{of.tensor, of.context, of.expert, of.expert_tensor, micro_batch,
                                  static_cast<int>(recompute), of.whole_sequences, of.exchange});
  if (is_new)
    slot->second = is_probed(job_, micro_batch) ? probed_of(of, micro_batch, recompute)
                                                : on_line(of, micro_batch, recompute);
  return slot->second ? &*slot->second : nullptr;
}

std::optional<PassCosts> Estimator::probed_of(Candidate of, std::int64_t micro_batch,
                                              RecomputeGranularity recompute) {
  of.micro_batch = micro_batch;
  of.recompute = recompute;
  return made_if_divisible([&] { return probed(of); });
}

std::optional<PassCosts> Estimator::on_line(const Candidate& of, std::int64_t micro_batch,
                                            RecomputeGranularity recompute) {
  constexpr std::int64_t apart = largest_probed / 2;
  const auto sequences = static_cast<double>(micro_batch - largest_probed);
  const PassCosts* smaller = passes_of(of, apart, recompute);
  const PassCosts* larger = passes_of(of, largest_probed, recompute);
  if (smaller == nullptr || larger == nullptr) return std::nullopt;
  if (seconds_of(*larger) < least_growth * seconds_of(*smaller)) return probed_of(of, micro_batch, recompute);
  return pass_costs_on_line(*smaller, *larger, sequences / static_cast<double>(apart));
}

// Candidates of one pipeline size come in a row.
const PipelineCosts& Estimator::pipeline_of(const Candidate& of, const PassCosts& passes) {
  if (!pipelines_.empty() && std::get<0>(pipelines_.begin()->first) != of.pipeline) pipelines_.clear();
  const PassCosts* const costs = &passes;
  const auto known = pipelines_.find(std::tie(of.pipeline, of.virtual_stages, of.schedule, costs));
  if (known != pipelines_.end()) return known->second;
  return pipelines_
      .emplace(PipelineKey{of.pipeline, of.virtual_stages, of.schedule, costs},
               pipeline_costs(job_, of, passes))
      .first->second;
}

// Context-parallel ranks sum gradients as data-parallel ones do. Whoever asks first, the job is the same.
const StepPrices* Estimator::steps_of(const Candidate& candidate) {
  Candidate of = candidate;
  of.micro_batch = 1;
  of.recompute = RecomputeGranularity::none;
  of.exchange = {};  // stages of few tokens, whose passes are not priced here
  const bool sends_alike = of.whole_sequences || takes_sequence_parallel(job_, of.tensor, of.context) ==
                                                     takes_sequence_parallel(job_, of.tensor, 1);
  if (sends_alike && job_.training.global_batch_size % (of.data * of.context) == 0) {
    of.data *= of.context;
    of.context = 1;
  }
  return steps_.of({of.tensor, of.context, of.pipeline, of.expert, of.expert_tensor, of.zero_stage > 0,
                    of.whole_sequences},
                   [&] { return step_prices(loaded(of), of); });
}

// Interleaved chunks are taken to be as full as the fullest: up to 1.08 of some small jobs.
double memory_excess(const Candidate& candidate) {
  return candidate.schedule == "interleaved_zb" ? 1.1 : Estimate{}.excess;
}

// Activations grow with the microbatch as they are; what is far too large for it need not be priced.
std::optional<Estimate> Estimator::too_large(const Candidate& of, RecomputeGranularity recompute) {
  if (of.micro_batch == 1 || job_.training.global_batch_size % of.data != 0) return std::nullopt;
  const PassCosts* passes = passes_of(of, 1, recompute);
  if (passes == nullptr) return std::nullopt;
  const PipelineCosts& pipeline = pipeline_of(of, *passes);
  if (pipeline.stages.empty()) return std::nullopt;
  const auto microbatches = static_cast<double>(of.microbatches(job_.training.global_batch_size));
  const double peak = peak_bytes(*passes, of, microbatches, pipeline, static_cast<double>(of.micro_batch));
  if (peak <= hopeless * passes->room_bytes) return std::nullopt;
  return Estimate{.step_s = 0, .peak_bytes = peak, .room_bytes = passes->room_bytes};
}

// Recompute makes no pass shorter. Its passes without it, spread evenly over pipeline ranks that never wait;
// 0 where those are not known, or are not worth pricing.
double Estimator::least_s(const Candidate& candidate) {
  if (too_large(candidate, RecomputeGranularity::none)) return 0;
  const PassCosts* passes = passes_of(candidate, candidate.micro_batch, RecomputeGranularity::none);
  if (passes == nullptr) return 0;
  return least_pass_s(*passes, candidate.recompute) *
         static_cast<double>(candidate.microbatches(job_.training.global_batch_size)) /
         static_cast<double>(candidate.pipeline);
}

std::optional<Estimate> Estimator::estimate(const Candidate& candidate, double most_s) {
  if (std::isfinite(most_s) && candidate.recompute != RecomputeGranularity::none)
    if (const double least = least_s(candidate); least > most_s)
      return Estimate{.step_s = least, .is_bound = true};
  if (const std::optional<Estimate> large = too_large(candidate, candidate.recompute)) return large;
  const PassCosts* passes = passes_of(candidate, candidate.micro_batch, candidate.recompute);
  if (passes == nullptr) return std::nullopt;
  const PipelineCosts& pipeline = pipeline_of(candidate, *passes);
  if (pipeline.stages.empty()) return std::nullopt;
  const auto microbatches = static_cast<double>(candidate.microbatches(job_.training.global_batch_size));
  Estimate estimate{.step_s = 0,
                    .peak_bytes = peak_bytes(*passes, candidate, microbatches, pipeline),
                    .room_bytes = passes->room_bytes,
                    .excess = memory_excess(candidate)};
  if (estimate.peak_bytes > hopeless * estimate.room_bytes) return estimate;
  // No rank waits, and nothing is gathered.
  if (const double least = microbatches * pipeline.slowest_pass_s(); least > most_s) {
    estimate.step_s = least;
    estimate.is_bound = true;
    return estimate;
  }
  const std::optional<double> seconds = step_s(candidate, pipeline, passes->tied_elements);
  if (!seconds) return std::nullopt;
  estimate.step_s = *seconds;
  return estimate;
}

std::optional<double> Estimator::step_s(const Candidate& candidate, const PipelineCosts& pipeline,
                                        double tied_elements) {
  const StepPrices* step = steps_of(candidate);
  if (step == nullptr) return std::nullopt;
  const auto microbatches = static_cast<double>(candidate.microbatches(job_.training.global_batch_size));
  const PipelineCosts sharded = with_sharding(candidate, *step, pipeline);
  return passes_s(candidate, microbatches, sharded, step->sends_s(candidate)) +
         end_s(job_, candidate, sharded.ranks, tied_elements, *step);
}

}  // namespace simrun
