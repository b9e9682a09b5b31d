#include "schedules/plan_network_message.h"

#include "plan.pb.h"
#include "schedules/plan_fields.h"

namespace simrun {

void encode_link(const LinkClass& link, proto::LinkClass& out) {
  out.set_bandwidth(link.bandwidth);
  out.set_latency_s(link.latency_s);
  out.set_efficiency(link.efficiency);
  out.set_sharp(link.sharp);
  out.set_flow_bandwidth(link.flow_bandwidth);
}

LinkClass decode_link(const proto::LinkClass& in) {
  return {finite(in.bandwidth(), "link bandwidth"), finite(in.latency_s(), "link latency"),
          finite(in.efficiency(), "link efficiency"), in.sharp(),
          finite(in.flow_bandwidth(), "flow bandwidth")};
}

namespace {

// The enums' numbers are the file format.
static_assert(static_cast<int>(FabricTopology::torus) == proto::FABRIC_TOPOLOGY_TORUS);
static_assert(static_cast<int>(PathChoice::spray) == proto::PATH_CHOICE_SPRAY);
static_assert(static_cast<int>(IntraNodeTopology::pcie) == proto::INTRA_NODE_TOPOLOGY_PCIE);

void encode(const Fabric& fabric, proto::Fabric& out) {
  out.set_topology(static_cast<proto::FabricTopology>(fabric.topology));
  out.set_is_mixed(!fabric.rail_optimized);
  out.set_nodes_per_leaf(fabric.nodes_per_leaf);
  out.set_spines(fabric.spines);
  out.set_oversubscription(fabric.oversubscription);
  out.set_spine_latency_s(fabric.spine_latency_s);
  out.set_routing(static_cast<proto::PathChoice>(fabric.routing));
  out.set_pxn(fabric.pxn);
  out.set_rail_only(fabric.rail_only);
  out.set_planes(fabric.planes == 1 ? 0 : fabric.planes);
  out.set_leaves_per_pod(fabric.leaves_per_pod);
  out.set_cores(fabric.cores);
  out.set_core_oversubscription(fabric.core_oversubscription == 1 ? 0 : fabric.core_oversubscription);
  out.set_core_latency_s(fabric.core_latency_s);
  for (const std::int64_t size : fabric.torus) out.add_torus(size);
  out.set_torus_is_mesh(!fabric.torus_wraps);
  out.set_hop_latency_s(fabric.hop_latency_s);
}

double or_1(double value) { return value == 0 ? 1 : value; }
std::int64_t or_1(std::int64_t value) { return value == 0 ? 1 : value; }

Fabric decode(const proto::Fabric& in) {
  return {.topology = enum_of(in.topology(), FabricTopology::torus, "fabric topology"),
          .rail_optimized = !in.is_mixed(),
          .nodes_per_leaf = in.nodes_per_leaf(),
          .spines = in.spines(),
          .oversubscription = or_1(finite(in.oversubscription(), "oversubscription")),
          .spine_latency_s = finite(in.spine_latency_s(), "spine latency"),
          .routing = enum_of(in.routing(), PathChoice::spray, "path choice"),
          .pxn = in.pxn(),
          .rail_only = in.rail_only(),
          .planes = or_1(std::int64_t{in.planes()}),
          .leaves_per_pod = in.leaves_per_pod(),
          .cores = in.cores(),
          .core_oversubscription = or_1(finite(in.core_oversubscription(), "core oversubscription")),
          .core_latency_s = finite(in.core_latency_s(), "core latency"),
          .torus = {in.torus().begin(), in.torus().end()},
          .torus_wraps = !in.torus_is_mesh(),
          .hop_latency_s = finite(in.hop_latency_s(), "hop latency")};
}

void encode(const NodeWiring& wiring, proto::NodeWiring& out) {
  out.set_topology(static_cast<proto::IntraNodeTopology>(wiring.topology));
  for (const NvlinkPair& pair : wiring.nvlinks)
    for (const std::int64_t number : {pair.first, pair.second, pair.links}) out.add_nvlinks(number);
  out.set_no_relay(!wiring.relay);
  out.set_nodes_per_domain(wiring.nodes_per_domain == 1 ? 0 : wiring.nodes_per_domain);
  const PcieTree& pcie = wiring.pcie;
  if (pcie.link != LinkClass{}) encode_link(pcie.link, *out.mutable_pcie_link());
  if (pcie.socket_link != LinkClass{}) encode_link(pcie.socket_link, *out.mutable_socket_link());
  for (const std::int64_t number : pcie.gpu_switches) out.add_gpu_switches(number);
  for (const std::int64_t number : pcie.nic_switches) out.add_nic_switches(number);
  for (const std::int64_t number : pcie.switch_sockets) out.add_switch_sockets(number);
  out.set_through_host(!wiring.gpu_direct);
}

NodeWiring decode(const proto::NodeWiring& in) {
  NodeWiring wiring{.topology = enum_of(in.topology(), IntraNodeTopology::pcie, "topology of a node")};
  if (in.nvlinks_size() % 3 != 0) throw MalformedPlan("nvlinks are not in threes");
  for (int i = 0; i < in.nvlinks_size(); i += 3)
    wiring.nvlinks.push_back({in.nvlinks(i), in.nvlinks(i + 1), in.nvlinks(i + 2)});
  wiring.relay = !in.no_relay();
  wiring.nodes_per_domain = or_1(std::int64_t{in.nodes_per_domain()});
  wiring.pcie.gpu_switches = {in.gpu_switches().begin(), in.gpu_switches().end()};
  wiring.pcie.nic_switches = {in.nic_switches().begin(), in.nic_switches().end()};
  wiring.pcie.switch_sockets = {in.switch_sockets().begin(), in.switch_sockets().end()};
  if (in.has_pcie_link()) wiring.pcie.link = decode_link(in.pcie_link());
  if (in.has_socket_link()) wiring.pcie.socket_link = decode_link(in.socket_link());
  wiring.gpu_direct = !in.through_host();
  return wiring;
}

}  // namespace

void encode_network(const Cluster& cluster, proto::Cluster& out) {
  encode_link(cluster.intra_node, *out.mutable_intra_node());
  encode_link(cluster.inter_node, *out.mutable_inter_node());
  encode(cluster.fabric, *out.mutable_fabric());
  if (cluster.wiring != NodeWiring{}) encode(cluster.wiring, *out.mutable_wiring());
}

ClusterNetwork decode_network(const proto::Cluster& in) {
  return {decode_link(in.intra_node()), decode_link(in.inter_node()), decode(in.fabric()),
          decode(in.wiring())};
}

}  // namespace simrun
