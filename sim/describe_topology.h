#pragma once

#include "configs/cluster_config.h"
#include "schedules/topology_report.h"

namespace simrun {

// The links of a cluster by class, the routes from its first node's GPUs by class (of more than a million
// GPUs: from its first GPU), and its bisection: what min(NICs, leaves' uplinks, pods' uplinks) of the lower
// half of the nodes lets through, every flow on its best way.
TopologyReport describe_topology(const Cluster& cluster);

// That bisection, bytes/s in one direction; 0 of one node.
double bisection_bandwidth(const Cluster& cluster);

}  // namespace simrun
