#pragma once

#include <string>

#include "schedules/topology_report.h"

namespace simrun {

// What --print-topology prints: GPUs, NICs and bisection, a line for each class of links, and one for each
// class of routes with the names of an example's links below.
std::string topology_text(const TopologyReport& report);

// {cluster, gpu, nodes, gpus_per_node, nics_per_node, links: [{name, count, bandwidth}], routes: [{between,
// pairs, hops, bandwidth, latency_s, example: []}], bisection_bandwidth, oversubscription}; bytes/s. Ends in
// a newline.
std::string topology_json(const TopologyReport& report);

}  // namespace simrun
