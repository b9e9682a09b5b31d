#pragma once

#include <string>

#include "configs/cluster_config.h"
#include "schedules/topology_report.h"

namespace simrun {

// A page that shows what was understood of a cluster's links: one node, the network between nodes, and the
// tables of topology_text().
std::string topology_page(const Cluster& cluster, const TopologyReport& report);

}  // namespace simrun
