#pragma once

#include <string>

#include "configs/cluster_config.h"
#include "schedules/topology_report.h"

namespace simrun {

// One node of a cluster: its GPUs, the switch or the links between them, its PCIe tree and its NICs, as
// inline SVG, and in words with rates as transfers get them. Not of a torus, of which fabric_drawing() shows
// all.
std::string node_drawing(const Cluster& cluster, const TopologyReport& report);

// The rate of the first class of links whose name has this part ("leaf*.spine*.up") and this end; 0 if there
// is none.
double rate_of(const TopologyReport& report, const std::string& part, const std::string& end = "");

}  // namespace simrun
