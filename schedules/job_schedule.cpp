#include "schedules/job_schedule.h"

#include <algorithm>
#include <stdexcept>

namespace simrun {

JobSchedule job_schedule(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const ScheduleEntry* entry = find_schedule(parallelism.pipeline_schedule);
  if (entry == nullptr)
    throw std::invalid_argument("unknown pipeline schedule " + parallelism.pipeline_schedule);
  PipelineShape shape;
  shape.ranks = static_cast<int>(parallelism.pipeline_model_parallel_size);
  shape.virtual_stages = static_cast<int>(parallelism.virtual_pipeline_model_parallel_size);
  shape.microbatches = static_cast<int>(job.microbatches());
  shape.group_size = static_cast<int>(parallelism.microbatch_group_size_per_vp_stage);
  const std::string refusal = entry->refusal(shape);
  if (!refusal.empty()) throw std::invalid_argument(refusal);
  return {*entry, shape};
}

bool splits_backward(const Schedule& schedule) {
  return std::any_of(schedule.begin(), schedule.end(), [](const RankOps& ops) {
    return std::any_of(ops.begin(), ops.end(),
                       [](const Op& op) { return op.kind == OpKind::backward_weight; });
  });
}

}  // namespace simrun
