#include "visualizer/schedule_transfers.h"

#include <numeric>

namespace simrun {

std::vector<std::int64_t> results_sent(const EvaluatedSchedule& schedule) {
  const PipelineShape& shape = schedule.shape;
  const int stages = stage_count(schedule.placement, shape.ranks, shape.virtual_stages);
  std::vector<std::int64_t> sent(schedule.schedule.size(), 0);
  for (std::size_t rank = 0; rank < sent.size(); ++rank)
    for (const Op& op : schedule.schedule[rank]) {
      if (op.kind == OpKind::backward_weight) continue;
      const int receiver = op.kind == OpKind::forward ? op.stage + 1 : op.stage - 1;
      if (receiver < 0 || receiver >= stages) continue;
      const int to = rank_of(schedule.placement, shape.ranks, receiver, op.direction);
      sent[rank] += to != static_cast<int>(rank) ? 1 : 0;
    }
  return sent;
}

double transfers_per_microbatch(const EvaluatedSchedule& schedule) {
  const std::vector<std::int64_t> sent = results_sent(schedule);
  return static_cast<double>(std::accumulate(sent.begin(), sent.end(), std::int64_t{0})) /
         static_cast<double>(schedule.shape.microbatches);
}

}  // namespace simrun
