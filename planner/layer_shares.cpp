#include "planner/layer_shares.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "planner/pipeline_costs.h"

namespace simrun {

namespace {

double seconds_of_part(const PartCost& part) { return part.forward_s + part.backward_s; }

double seconds_of_layer(const PassCosts& costs) {
  double seconds = 0;
  for (const std::size_t kind : costs.kind_of) seconds += seconds_of_part(costs.kinds[kind]);
  return seconds / static_cast<double>(costs.kind_of.size());
}

// A pipeline rank while layers are dealt.
struct RankShare {
  double layer_s = 0, seconds = 0;  // of a layer, and of all that it has
  std::int64_t layers = 0;
  std::vector<std::size_t> stages;
};

}  // namespace

std::vector<StageContent> stages_by_time(const Job& job, const Candidate& candidate,
                                         const std::vector<const PassCosts*>& of_ranks,
                                         const std::vector<std::int64_t>& rooms) {
  std::vector<StageContent> stages = balanced_stages(job, candidate.pipeline * candidate.virtual_stages);
  if (stages.empty()) return {};
  std::vector<RankShare> ranks(of_ranks.size());
  std::vector<double> seconds(stages.size(), 0);
  std::int64_t left = job.model.num_layers;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::size_t on = pipeline_rank_of(candidate, s);
    RankShare& rank = ranks[on];
    if (rank.stages.empty()) rank.layer_s = seconds_of_layer(*of_ranks[on]);
    rank.stages.push_back(s);
    stages[s].layers = least_layers(stages[s]);
    left -= stages[s].layers;
    rank.layers += stages[s].layers;
    seconds[s] = static_cast<double>(stages[s].layers) * rank.layer_s +
                 (stages[s].embedding ? seconds_of_part(of_ranks[on]->embedding) : 0) +
                 (stages[s].loss ? seconds_of_part(of_ranks[on]->loss) : 0);
    rank.seconds += seconds[s];
  }
  using Next = std::pair<double, std::size_t>;  // when a rank would be done with one layer more
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto offer = [&](std::size_t on) {
    if (ranks[on].layers < rooms[on]) next.emplace(ranks[on].seconds + ranks[on].layer_s, on);
  };
  for (std::size_t on = 0; on < ranks.size(); ++on) offer(on);
  // Beyond what there is room for, to the rank that then has least too much of what it has room for.
  const auto too_much = [&](std::size_t on) {
    constexpr double of_none = 0.25;
    return static_cast<double>(ranks[on].layers + 1) / std::max(static_cast<double>(rooms[on]), of_none);
  };
  for (; left > 0; --left) {
    std::size_t on = 0;
    if (next.empty()) {
      for (std::size_t other = 1; other < ranks.size(); ++other)
        if (too_much(other) < too_much(on)) on = other;
    } else {
      on = next.top().second;
      next.pop();
    }
    RankShare& rank = ranks[on];
    const std::size_t stage =
        *std::ranges::min_element(rank.stages, {}, [&](std::size_t s) { return std::pair(seconds[s], s); });
    ++stages[stage].layers;
    seconds[stage] += rank.layer_s;
    ++rank.layers;
    rank.seconds += rank.layer_s;
    offer(on);
  }
  return stages;
}

}  // namespace simrun
