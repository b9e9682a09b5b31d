#include "every_order.h"

#include <algorithm>
#include <limits>

#include "schedules/run_lists.h"

namespace simrun {
namespace {

// One microbatch on one stage of the rank: F, I, W or F, B, of which `done` are in the list.
struct Chain {
  Op op;
  int done = 0;
};

class RankLists {
 public:
  RankLists(const PipelineShape& shape, const EveryOrder& options, int rank) : options_(options) {
    limit_ = shape.memory_limit > 0 ? shape.memory_limit : std::numeric_limits<int>::max();
    const bool both_ways = options.placement == Placement::bidirectional;
    const int microbatches = both_ways ? shape.microbatches / 2 : shape.microbatches;
    for (const Direction direction : {Direction::down, Direction::up}) {
      if (direction == Direction::up && !both_ways) continue;
      for (int stage = 0; stage < stage_count(options.placement, shape.ranks, shape.virtual_stages); ++stage)
        for (int m = 0; m < microbatches; ++m)
          if (rank_of(options.placement, shape.ranks, stage, direction) == rank)
            chains_.push_back({{.stage = stage, .microbatch = m, .direction = direction}});
    }
    extend(0);
  }
  std::vector<RankOps> lists;

 private:
  int length() const { return options_.split ? 3 : 2; }

  bool may_follow(std::size_t c) const {
    const Chain& chain = chains_[c];
    if (chain.done == length()) return false;
    if (!options_.first_in_first_out || chain.op.microbatch == 0) return true;
    return chains_[c - 1].done > chain.done;  // the microbatch before it, on the same stage
  }

  void extend(int alive) {
    bool complete = true;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      Chain& chain = chains_[c];
      complete = complete && chain.done == length();
      if (!may_follow(c) || (chain.done == 0 && alive == limit_)) continue;
      Op op = chain.op;
      op.kind = chain.done == 0   ? OpKind::forward
                : chain.done == 2 ? OpKind::backward_weight
                : options_.split  ? OpKind::backward_input
                                  : OpKind::backward;
      ++chain.done;
      list_.push_back(op);
      extend(alive + (chain.done == 1 ? 1 : 0) - (chain.done == length() ? 1 : 0));
      list_.pop_back();
      --chain.done;
    }
    if (complete) lists.push_back(list_);
  }

  EveryOrder options_;
  int limit_ = 0;
  std::vector<Chain> chains_;
  RankOps list_;
};

std::int64_t makespan(const Schedule& schedule, const PipelineShape& shape) {
  const ListRun run = run_lists(schedule, shape);
  if (!run.finished) return std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  for (const std::vector<std::int64_t>& ends : run.end) last = std::max(last, ends.back());
  return last;
}

std::int64_t try_all(const std::vector<RankLists>& ranks, const PipelineShape& shape, Schedule& chosen) {
  if (chosen.size() == ranks.size()) return makespan(chosen, shape);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const RankOps& list : ranks[chosen.size()].lists) {
    chosen.push_back(list);
    least = std::min(least, try_all(ranks, shape, chosen));
    chosen.pop_back();
  }
  return least;
}

}  // namespace

std::int64_t shortest_makespan(const PipelineShape& shape, const EveryOrder& options) {
  std::vector<RankLists> ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) ranks.emplace_back(shape, options, rank);
  Schedule chosen;
  return try_all(ranks, shape, chosen);
}

}  // namespace simrun
