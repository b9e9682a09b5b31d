#include "schedules/chimera.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/accepted_sizes.h"

namespace simrun {
namespace {

struct PlacedOp {
  std::int64_t slot = 0;
  Op op;
};

RankOps rank_ops(int rank, int ranks, int microbatches) {
  const int per_round = ranks / 2;
  const std::int64_t round = 2 * std::int64_t{ranks};  // slots
  std::vector<PlacedOp> grid;
  grid.reserve(static_cast<std::size_t>(microbatches) * 2);
  for (const Direction direction : {Direction::down, Direction::up}) {
    const int stage = direction == Direction::down ? rank : ranks - 1 - rank;
    for (int m = 0; m < microbatches / 2; ++m) {
      const std::int64_t start = m / per_round * round + 2 * std::int64_t{m % per_round};
      grid.push_back({start + stage, {OpKind::forward, stage, m, 0, direction}});
      grid.push_back({start + round - 1 - stage, {OpKind::backward, stage, m, 0, direction}});
    }
  }
  std::sort(grid.begin(), grid.end(), [](const PlacedOp& a, const PlacedOp& b) { return a.slot < b.slot; });
  RankOps ops;
  ops.reserve(grid.size());
  for (const PlacedOp& placed : grid) ops.push_back(placed.op);
  return ops;
}

std::string chimera_rule(const PipelineShape& shape) {
  if (std::string broken = bidirectional_rule(shape); !broken.empty()) return broken;
  if (shape.microbatches % shape.ranks != 0)
    return fmt::format("rounds of one microbatch per rank need a multiple of {} microbatches, not {}",
                       shape.ranks, shape.microbatches);
  return "";
}

}  // namespace

Schedule chimera(int ranks, int microbatches) {
  Schedule schedule;
  for (int rank = 0; rank < ranks; ++rank) schedule.push_back(rank_ops(rank, ranks, microbatches));
  return schedule;
}

std::string chimera_refusal(const PipelineShape& shape) { return refusal_with_sizes(shape, chimera_rule); }

}  // namespace simrun
