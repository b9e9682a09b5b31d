#pragma once

#include <optional>

#include "configs/job.h"
#include "schedules/pipeline_schedule.h"
#include "schedules/plan.h"

namespace simrun {

// What is known of a job's plan before its schedule is chosen: for schedules that use times.
struct PassFacts {
  std::vector<PassTimes> times = {};  // by stage; none: not known
  // (stage, microbatch) activations that a rank may hold, where the job does not say: if backward passes are
  // split, and if none is (with recompute W keeps far more than F does). 0: all.
  int memory_limit = 0, whole_memory_limit = 0;
};

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
  friend JobSchedule job_schedule(const Job& job, const PassFacts& facts);
  Placement placement_ = Placement::loop;
  const ScheduleEntry* entry_ = nullptr;  // builds it for times yet to come; null: order_
  Schedule order_;
};

// Without times in `facts` `auto` plans for equal ones, and what zb_auto and v_auto build follows from the
// shape that they are given.
//
// Throws std::invalid_argument with the rule if the job's sizes break it (or differ from the CSV's), or if
// plans cannot hold the schedule yet; ConfigError with the places in the CSV if that is no schedule.
JobSchedule job_schedule(const Job& job, const PassFacts& facts = {});

// Whether the order of the job's schedule follows from pass times. Cheap.
bool uses_times(const Job& job);

// Whether any pass of the schedule is a backward-input or backward-weight.
bool splits_backward(const Schedule& schedule);

}  // namespace simrun
