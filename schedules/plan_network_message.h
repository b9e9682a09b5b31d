#pragma once

#include "configs/cluster_config.h"

// A cluster's links in plan.proto's message.
namespace simrun {

namespace proto {
class Cluster;
}

struct ClusterNetwork {
  LinkClass intra_node, inter_node;
  Fabric fabric;
  NodeWiring wiring;
};

void encode_network(const Cluster& cluster, proto::Cluster& out);
ClusterNetwork decode_network(const proto::Cluster& in);  // throws MalformedPlan

}  // namespace simrun
