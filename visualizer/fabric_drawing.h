#pragma once

#include <string>

#include "configs/cluster_config.h"
#include "schedules/topology_report.h"

namespace simrun {

// How a cluster's nodes are connected, level by level, as inline SVG: a few switches of each level (the last
// box of a row, "...", stands for the rest), and in words all of them, with rates as transfers get them.
std::string fabric_drawing(const Cluster& cluster, const TopologyReport& report);

}  // namespace simrun
