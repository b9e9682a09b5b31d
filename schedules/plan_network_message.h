#pragma once

#include "configs/cluster_config.h"

// A cluster's links in plan.proto's message.
namespace simrun {

namespace proto {
class Cluster;
class LinkClass;
}  // namespace proto

struct ClusterNetwork {
  LinkClass intra_node, inter_node;
  Fabric fabric;
  NodeWiring wiring;
};

void encode_link(const LinkClass& link, proto::LinkClass& out);
LinkClass decode_link(const proto::LinkClass& in);  // throws MalformedPlan
void encode_network(const Cluster& cluster, proto::Cluster& out);
ClusterNetwork decode_network(const proto::Cluster& in);  // throws MalformedPlan

}  // namespace simrun
