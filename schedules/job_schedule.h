#pragma once

#include "configs/job.h"
#include "schedules/pipeline_schedule.h"

namespace simrun {

// The schedule that a job asks for by name.
struct JobSchedule {
  const ScheduleEntry& entry;
  PipelineShape shape;  // without times
  Placement placement() const { return entry.placement; }
};

// Throws std::invalid_argument with the rule if the job's sizes break it, or if plans cannot hold the
// schedule yet: two pipelines over the same weights, slices of a sequence, overlapped pairs and
// asynchronous updates can be drawn only.
JobSchedule job_schedule(const Job& job);

// Whether any pass of the schedule is a backward-input or backward-weight.
bool splits_backward(const Schedule& schedule);

}  // namespace simrun
