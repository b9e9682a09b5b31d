#pragma once

#include <optional>

#include "configs/job.h"
#include "schedules/pipeline_schedule.h"
#include "schedules/plan.h"

namespace simrun {

// The schedule that a job asks for: by name, from a CSV, or the best that a search finds.
class JobSchedule {
 public:
  std::string name;                         // of the registry, auto, or of the CSV's file
  PipelineShape shape;                      // with the stage times that it was planned for, if any were given
  bool uses_times = false;                  // its order follows from stage times
  std::optional<FoundSchedule> found = {};  // by `auto`, for given times
  Placement placement() const { return placement_; }

  // The order for other stage times than the shape's, where it uses times.
  Schedule build(const PipelineShape& sized) const;

 private:
  friend JobSchedule job_schedule(const Job& job, const std::vector<PassTimes>& pass_times);
  Placement placement_ = Placement::loop;
  const ScheduleEntry* entry_ = nullptr;  // builds it for times yet to come; null: order_
  Schedule order_;
};

// `pass_times`: by stage, for schedules that use times; without them `auto` plans for equal times, and what
// zb_auto and v_auto build follows from the shape that they are given.
//
// Throws std::invalid_argument with the rule if the job's sizes break it (or differ from the CSV's), or if
// plans cannot hold the schedule yet; ConfigError with the places in the CSV if that is no schedule.
JobSchedule job_schedule(const Job& job, const std::vector<PassTimes>& pass_times = {});

// Whether the order of the job's schedule follows from pass times. Cheap.
bool uses_times(const Job& job);

// Whether any pass of the schedule is a backward-input or backward-weight.
bool splits_backward(const Schedule& schedule);

}  // namespace simrun
