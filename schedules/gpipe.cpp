#include "schedules/gpipe.h"

namespace simrun {

Schedule gpipe(int ranks, int microbatches) {
  Schedule schedule(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    RankOps& ops = schedule[static_cast<std::size_t>(rank)];
    ops.reserve(static_cast<std::size_t>(microbatches) * 2);
    for (int m = 0; m < microbatches; ++m) ops.push_back({OpKind::forward, rank, m});
    for (int m = 0; m < microbatches; ++m) ops.push_back({OpKind::backward, rank, m});
  }
  return schedule;
}

}  // namespace simrun
