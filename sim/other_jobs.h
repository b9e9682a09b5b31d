#pragma once

#include <vector>

#include "schedules/timeline.h"
#include "sim/carried_traffic.h"
#include "sim/topology.h"

namespace simrun {

// What another job moves again and again (configs/imperfections.h).
struct PeriodicExchange {
  NetworkExchange exchange;
  Picoseconds period = 0, phase = 0;
};

// Of all other jobs of the cluster, in their order. Their collectives are carried out as the cluster's own
// (sim/collective_tuner.h).
std::vector<PeriodicExchange> other_jobs_traffic(const Topology& topology, const Cluster& cluster);

}  // namespace simrun
