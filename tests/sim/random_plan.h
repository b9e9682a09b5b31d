#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

struct RandomPlanShape {
  Picoseconds unit = 1;  // of all times
  bool data_parallel =
      true;  // two streams of collectives beside the tensor-parallel one, and all-reduces over ranks
};

// A random program on PlanBuilder's cluster, 1 to 4 pipeline ranks. Exchanges have one order over all
// ranks, because ranks get their entries from one list of random events: it cannot deadlock.
Plan random_plan(unsigned seed, const RandomPlanShape& shape = {});

}  // namespace simrun
