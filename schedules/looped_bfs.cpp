#include "schedules/looped_bfs.h"

namespace simrun {

static RankOps rank_ops(const PipelineShape& shape, int rank) {
  RankOps ops;
  ops.reserve(static_cast<std::size_t>(shape.microbatches) * static_cast<std::size_t>(shape.virtual_stages) *
              2);
  for (int chunk = 0; chunk < shape.virtual_stages; ++chunk)
    for (int m = 0; m < shape.microbatches; ++m)
      ops.push_back({OpKind::forward, chunk * shape.ranks + rank, m});
  for (int chunk = shape.virtual_stages; chunk-- > 0;)
    for (int m = shape.microbatches; m-- > 0;)
      ops.push_back({OpKind::backward, chunk * shape.ranks + rank, m});
  return ops;
}

Schedule looped_bfs(const PipelineShape& shape) {
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank) schedule.push_back(rank_ops(shape, rank));
  return schedule;
}

}  // namespace simrun
