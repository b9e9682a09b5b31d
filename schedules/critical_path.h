#pragma once

#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// One instruction instance that the step's length depends on.
struct CriticalStep {
  Index rank = 0;       // into Timeline::ranks
  Index lane = 0;       // into its lanes
  Index interval = 0;   // into the lane's intervals
  Picoseconds gap = 0;  // before it: time in which nothing that was recorded held it up
};

// What the step's length is made of, from its beginning to its end:
// sum(gap + duration) + tail = Timeline::step, to the picosecond.
struct CriticalPath {
  std::vector<CriticalStep> steps;  // in order of time
  Picoseconds tail = 0;             // from the end of the last one to the end of the step
};

// Walks back from what ends last: what started at a moment was held up by what ended then. Of an exchange
// between recorded ranks it is the end that arrived last, and the walk goes on at that end's rank. Of several
// instructions that end at one moment it takes the one before on the same stream, then compute, then the
// others in the order of lanes; any of them would be a critical path.
//
// A gap is left where an exchange waited for a GPU that is not recorded (others of a pipeline rank whose GPUs
// have unequal work). Empty if no instructions were recorded (Detail::instructions). Linear in what was.
CriticalPath critical_path(const Plan& plan, const Timeline& timeline);

}  // namespace simrun
