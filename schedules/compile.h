#pragma once

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/plan.h"

namespace simrun {

// Compiles a job: graph -> layouts -> stages -> schedule -> Plan. Pure; O(stages x (operators + microbatches
// x virtual stages)). REQUIRES: a job that the loader accepted. Throws std::invalid_argument where a layout
// does not divide.
Plan compile(const Job& job);

}  // namespace simrun
