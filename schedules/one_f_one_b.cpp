#include "schedules/one_f_one_b.h"

#include <algorithm>

namespace simrun {

static RankOps rank_ops(int rank, int ranks, int microbatches) {
  const int warmup = std::min(ranks - 1 - rank, microbatches);
  RankOps ops;
  ops.reserve(static_cast<std::size_t>(microbatches) * 2);
  for (int m = 0; m < warmup; ++m) ops.push_back({OpKind::forward, rank, m});
  for (int m = warmup; m < microbatches; ++m) {
    ops.push_back({OpKind::forward, rank, m});
    ops.push_back({OpKind::backward, rank, m - warmup});
  }
  for (int m = microbatches - warmup; m < microbatches; ++m) ops.push_back({OpKind::backward, rank, m});
  return ops;
}

Schedule one_f_one_b(int ranks, int microbatches) {
  Schedule schedule;
  for (int rank = 0; rank < ranks; ++rank) schedule.push_back(rank_ops(rank, ranks, microbatches));
  return schedule;
}

}  // namespace simrun
