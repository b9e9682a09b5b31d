#include "planner/pipeline_waits.h"

#include <algorithm>

#include "planner/pipeline_costs.h"

namespace simrun {
namespace {

// A rank of ZB-V runs F0 I0 W0 F1 I1 W1 in its steady state and receives twice within it, once beside a
// forward pass and once beside weight gradients.
double wave_waits_s(const std::vector<PartCost>& stages, const PipelineSends& sends) {
  double forward = stages.front().forward_s, weight = stages.front().weight_s;
  for (const PartCost& stage : stages) {
    forward = std::min(forward, stage.forward_s);
    weight = std::min(weight, stage.weight_s);
  }
  return std::max(sends.slowest() - forward, 0.0) + std::max(sends.slowest() - weight, 0.0);
}

// The first forward pass goes down the ranks and up again, and so does the first backward one. The more
// microbatches follow before the last way back, the more often all ranks then wait for the slowest transfer.
PipelineWaits wave_waits(const Candidate& candidate, double microbatches, const std::vector<PartCost>& stages,
                         const PipelineSends& sends) {
  const auto others = static_cast<double>(candidate.pipeline - 1);
  const double following = std::min((microbatches - 1) / (2 * others), 1.0);
  return {4 * sends.sum() + following * (3 * others * sends.slowest() - sends.sum()),
          wave_waits_s(stages, sends)};
}

// A rank between two others waits for each, for activations and for gradients. With virtual stages it does so
// in every second of their passes, and the way from the last rank to the first is no shorter than others.
PipelineWaits virtual_waits(const Candidate& candidate, const std::vector<PartCost>& stages,
                            const PipelineSends& sends) {
  const auto boundaries = static_cast<double>(stages.size() - 1);
  double way = boundaries * sends.slowest();
  for (std::size_t stage = 0; stage + 1 < stages.size(); ++stage) way += sends.behind(stage);
  return {way, static_cast<double>(candidate.virtual_stages) * sends.slowest()};
}

}  // namespace

PipelineSends::PipelineSends(const Candidate& candidate, const std::vector<double>& boundaries)
    : candidate_(candidate), boundaries_(boundaries) {
  for (const double seconds : boundaries_) {
    sum_ += seconds;
    slowest_ = std::max(slowest_, seconds);
  }
}

double PipelineSends::behind(std::size_t stage) const {
  const std::size_t from = pipeline_rank_of(candidate_, stage), to = pipeline_rank_of(candidate_, stage + 1);
  if (from == to) return 0;
  // A loop leads from the last rank to the first.
  return from > to && !is_wave(candidate_) ? slowest_ : boundaries_[std::min(from, to)];
}

double PipelineSends::slowest_rank() const {
  double slowest = slowest_;
  for (std::size_t i = 1; i < boundaries_.size(); ++i)
    slowest = std::max(slowest, boundaries_[i - 1] + boundaries_[i]);
  return slowest;
}

PipelineWaits pipeline_waits(const Candidate& candidate, double microbatches,
                             const std::vector<PartCost>& stages, const PipelineSends& sends) {
  if (is_wave(candidate)) return wave_waits(candidate, microbatches, stages, sends);
  if (candidate.virtual_stages > 1) return virtual_waits(candidate, stages, sends);
  // Weight gradients that are put off hide one of two.
  const bool puts_off = puts_off_weight_gradients(candidate);
  const auto others = static_cast<double>(candidate.pipeline - 1);
  const double following = std::min((microbatches - 1) / others, 1.0);
  const double ends = sends.first() + (puts_off || candidate.pipeline == 2 ? 0 : sends.last());
  return {2 * sends.sum() + following * (2 * sends.sum() - ends),
          puts_off ? sends.slowest() : sends.slowest_rank()};
}

double lighter_ranks_s(const std::vector<PartCost>& ranks, const std::vector<double>& sends_s) {
  constexpr double lighter = 0.98;  // x the slowest: others are in step with it
  const auto pass_s = [](const PartCost& rank) { return rank.forward_s + rank.backward_s; };
  double slowest = 0, longest = 0;
  for (const PartCost& rank : ranks) slowest = std::max(slowest, pass_s(rank));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (pass_s(ranks[rank]) >= lighter * slowest) continue;
    const double above = rank > 0 ? sends_s[rank - 1] : 0;
    const double below = rank + 1 < ranks.size() ? sends_s[rank] : 0;
    const double hidden = std::min({above, below, ranks[rank].weight_s / 2});  // of one stage of two
    longest = std::max(longest, pass_s(ranks[rank]) + 2 * (above + below) - hidden);
  }
  return longest;
}

}  // namespace simrun
