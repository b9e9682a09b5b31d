#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "planner/alpa_search.h"
#include "schedules/pipeline_schedule.h"

namespace simrun {

// A schedule, and how many stages of a rank it has.
struct RankSchedule {
  std::string name = AlpaPlan{}.schedule;
  std::int64_t virtual_stages = 1;
  bool operator==(const RankSchedule&) const = default;
};

// Which are tried; empty: those of the house that split backward passes or interleave, and some numbers.
struct ScheduleLimits {
  std::vector<std::string> names = {};
  std::vector<std::int64_t> virtual_stages = {};
};

// Those that the stages of a 1F1B plan can be dealt to, other than 1F1B, smallest numbers first.
std::vector<RankSchedule> other_schedules(const Job& job, const AlpaPlan& plan, const ScheduleLimits& limits);

// The layers of a plan under 1F1B dealt anew, so many to each stage, each with the layouts it has: the mesh
// of all ranks is the same.
AlpaPlan with_layers(AlpaPlan plan, const RankSchedule& schedule, const std::vector<std::int64_t>& layers);

// What other schedules make of a plan's passes, by the schedules' own lists of them. `forwards`: that a
// microbatch takes, 2 where all is recomputed. Each order is made once; from several threads at once.
class RankSchedules {
 public:
  // The plan under the schedule. Where layers are dealt anew, ranks are done at the same time and wait
  // little, as far as whole layers allow it.
  AlpaPlan with_schedule(AlpaPlan plan, const RankSchedule& schedule, double forwards);

  // How long the passes of a plan under the schedule take, by those under 1F1B.
  double ratio(const AlpaPlan& under_1f1b, const RankSchedule& schedule, double forwards);

 private:
  struct PassShares {
    double forwards = 1, handover_s = 0;
  };
  double passes_s(const ScheduleEntry& entry, const std::vector<double>& stage_seconds,
                  const PassShares& shares, PipelineShape shape);
  static PassShares shares_of(const AlpaPlan& plan, double forwards);
  std::vector<std::int64_t> moved_layers(const AlpaPlan& plan, const RankSchedule& schedule, double forwards);
  const Schedule& order_of(const ScheduleEntry& entry, const PipelineShape& shape);

  std::mutex mutex_;
  std::map<std::tuple<std::string, int, int, int>, Schedule> orders_;
};

}  // namespace simrun
