#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "sim/collective_all_to_all.h"
#include "sim/collective_ring.h"

namespace simrun {
namespace {

// 100 GB/s and 1 us within a node, 10 GB/s and 5 us per NIC.
Cluster cluster_of(std::int64_t nodes, std::int64_t gpus) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.nics_per_node = gpus;
  cluster.intra_node = {125e9, 1e-6, 0.8};
  cluster.inter_node = {12.5e9, 5e-6, 0.8};
  return cluster;
}

// The first k GPUs of each of the first N nodes.
std::vector<std::int64_t> first_gpus(const Cluster& cluster, std::int64_t nodes, std::int64_t per_node) {
  std::vector<std::int64_t> devices;
  for (std::int64_t node = 0; node < nodes; ++node)
    for (std::int64_t gpu = 0; gpu < per_node; ++gpu) devices.push_back(node * cluster.gpus_per_node + gpu);
  return devices;
}

double seconds(const Cluster& cluster, Opcode opcode, const std::vector<std::int64_t>& devices,
               double bytes) {
  const Topology topology(cluster);
  const ExchangeFlows flows = collective_flows(topology, cluster, opcode, devices, bytes);
  return lockstep_seconds(topology, {&flows, 1}, bytes);
}

// Bytes per link, in shares of the tensor.
std::map<std::string, double> loads(const Topology& topology, const ExchangeFlows& flows) {
  std::map<std::string, double> loads;
  for (const FlowPhase& phase : flows)
    for (const SharedFlow& flow : phase.flows)
      for (const LinkIndex link : flow.route.links()) loads[topology.name(link)] += flow.share;
  return loads;
}

// The textbook's closed forms, on B = 100 GB/s within and b = 10 GB/s between nodes, for k ranks on each of N
// nodes.
struct ClosedForm {
  double k, nodes;
  double n() const { return k * nodes; }
  double rounds(Opcode opcode) const { return opcode == Opcode::all_reduce ? 2 : 1; }
  double ring(Opcode opcode, double bytes) const {
    const double crossing = nodes == 1 ? 0 : std::min(nodes, n() - 1);
    const double hops_s = crossing * 5e-6 + (n() - 1 - crossing) * 1e-6;
    const double per_byte = nodes == 1 ? 1 / 100e9 : 1 / (k * 10e9);
    const double share = opcode == Opcode::broadcast ? 1 : (n() - 1) / n();
    return rounds(opcode) * (share * bytes * per_byte + hops_s);
  }
  double two_level(Opcode opcode, double bytes) const {
    const double inside = (k - 1) / k * bytes / 100e9 + (k - 1) * 1e-6;
    const double across = (nodes - 1) / nodes * bytes / k / 10e9 + (nodes - 1) * 5e-6;
    return rounds(opcode) * (inside + across);
  }
  double all_to_all(double bytes) const {
    const double inside = bytes * (k - 1) / n() / 100e9, across = bytes * (n() - k) / n() / 10e9;
    return std::max(inside, across) + (k - 1) * 1e-6 + (n() - k) * 5e-6;
  }
  double operator()(Opcode opcode, double bytes) const {
    if (n() == 1) return 0;
    if (opcode == Opcode::all_to_all) return all_to_all(bytes);
    if (opcode == Opcode::broadcast || nodes == 1) return ring(opcode, bytes);
    return std::min(ring(opcode, bytes), two_level(opcode, bytes));
  }
};

}  // namespace

TEST_CASE("ring collectives within a node") {
  const Cluster cluster = cluster_of(2, 4);
  const std::vector<std::int64_t> four = {0, 1, 2, 3};
  // 3/4 x 100 MB / 100 GB/s = 750 us, + 3 hops of 1 us
  CHECK(seconds(cluster, Opcode::all_gather, four, 100e6) == Approx(753e-6));
  CHECK(seconds(cluster, Opcode::reduce_scatter, four, 100e6) == Approx(753e-6));
  CHECK(seconds(cluster, Opcode::all_reduce, four, 100e6) == Approx(1506e-6));
  CHECK(seconds(cluster, Opcode::broadcast, four, 100e6) == Approx(1003e-6));
  CHECK(seconds(cluster, Opcode::all_to_all, four, 100e6) == Approx(753e-6));
  CHECK(seconds(cluster, Opcode::all_reduce, {2}, 100e6) == 0);
}

TEST_CASE("collectives across nodes take the cheaper of one ring and two levels") {
  const Cluster cluster = cluster_of(2, 4);
  const std::vector<std::int64_t> eight = first_gpus(cluster, 2, 4);
  // Ring: four NICs of 10 GB/s: 7/8 x 100 MB / 40 GB/s = 2187.5 us, + 2 crossings of 5 us and 5 hops of 1 us.
  // Two levels: 750 us + 3 us within; 1/2 x 25 MB / 10 GB/s = 1250 us + 5 us between; 2008 us.
  CHECK(seconds(cluster, Opcode::all_gather, eight, 100e6) == Approx(2008e-6));
  CHECK(seconds(cluster, Opcode::all_reduce, eight, 100e6) == Approx(4016e-6));
  // Small: two levels have 3 + 5 = 8 us of hops, the ring 15 us.
  CHECK(seconds(cluster, Opcode::all_gather, eight, 0) == Approx(8e-6));
  // One per node: 1/2 x 100 MB / 10 GB/s + one hop
  CHECK(seconds(cluster, Opcode::reduce_scatter, {0, 4}, 100e6) == Approx(5005e-6));
  // All-to-all: 4/8 of 100 MB leaves the node at 10 GB/s; 3 hops within and 4 between.
  CHECK(seconds(cluster, Opcode::all_to_all, eight, 100e6) == Approx(5023e-6));
}

TEST_CASE("with a NIC per GPU and no switch in the way, flows cost what the closed forms say") {
  const Opcode opcode = GENERATE(Opcode::all_gather, Opcode::reduce_scatter, Opcode::all_reduce,
                                 Opcode::broadcast, Opcode::all_to_all);
  const std::int64_t nodes = GENERATE(1, 2, 3, 7);
  // Up to 8 NICs of 10 GB/s are slower than 100 GB/s of NVLink: what is checked here is bound by NICs.
  const std::int64_t per_node = GENERATE(1, 2, 3, 8);
  const double bytes = GENERATE(0.0, 1.0, 12345.0, 1e6, 3.7e9);
  CAPTURE(static_cast<int>(opcode), nodes, per_node, bytes);
  const Cluster cluster = cluster_of(8, 8);
  const double expected =
      ClosedForm{static_cast<double>(per_node), static_cast<double>(nodes)}(opcode, bytes);
  CHECK(seconds(cluster, opcode, first_gpus(cluster, nodes, per_node), bytes) ==
        Approx(expected).epsilon(1e-12).margin(1e-20));
}

TEST_CASE("a ring over nodes loads each NIC with 1/k and each NVLink with (k-1)/k of it") {
  const Cluster cluster = cluster_of(2, 4);
  const Topology topology(cluster);
  const auto load = loads(topology, ring_flows(topology, Opcode::all_gather, first_gpus(cluster, 2, 4)));
  CHECK(load.size() == 8 * 4);  // every port of eight GPUs and NICs
  for (const auto& [link, share] : load) {
    INFO(link);
    // 7/8 of the tensor, a quarter per ring
    CHECK(share == Approx(link.find("nic") == std::string::npos ? 7.0 / 8 * 3 / 4 : 7.0 / 8 / 4));
  }
  // Where NVLink is what limits, the flows are therefore faster than (n-1)/n bytes / B_intra: 3/4 of it.
  Cluster slow_inside = cluster;
  slow_inside.intra_node = {10e9, 0, 1};
  slow_inside.inter_node = {10e9, 0, 1};
  const Topology slow(slow_inside);
  const ExchangeFlows ring = ring_flows(slow, Opcode::all_gather, first_gpus(cluster, 2, 4));
  CHECK(lockstep_seconds(slow, {&ring, 1}, 1e9) == Approx(0.75 * 0.0875));
}

TEST_CASE("nodes with unequal numbers of ranks: as many rings as the smallest has") {
  const Cluster cluster = cluster_of(2, 4);
  const Topology topology(cluster);
  const std::vector<std::int64_t> devices = {0, 1, 2, 4, 5};  // three and two
  CHECK(two_level_flows(topology, Opcode::all_gather, devices).empty());
  const auto load = loads(topology, ring_flows(topology, Opcode::all_gather, devices));
  CHECK(load.at("node0.nic0.tx") == Approx(0.8 / 2));
  CHECK(load.at("node1.nic1.rx") == Approx(0.8 / 2));
  CHECK(load.count("node0.nic2.tx") == 0);
  CHECK(load.at("node0.gpu1.nvlink_tx") == Approx(0.8));      // to GPU 2, where no ring enters: both rings
  CHECK(load.at("node0.gpu0.nvlink_tx") == Approx(0.8 / 2));  // to GPU 1, where the second has entered
  CHECK(load.at("node1.gpu0.nvlink_tx") == Approx(0.8 / 2));
  // 0.8 x 100 MB / 2 / 10 GB/s = 4 ms; two of the four hops cross nodes.
  CHECK(seconds(cluster, Opcode::all_gather, devices, 100e6) == Approx(4012e-6));
  // A lone rank on one node: one ring, all of it inside the other.
  const auto lone =
      loads(topology, ring_flows(topology, Opcode::all_gather, std::vector<std::int64_t>{0, 1, 4}));
  CHECK(lone.at("node0.gpu0.nvlink_tx") == Approx(2.0 / 3));
  CHECK(lone.count("node0.gpu1.nvlink_tx") == 0);
  CHECK(lone.at("node1.nic0.tx") == Approx(2.0 / 3));
}

TEST_CASE("a broadcast sends nothing back to its first rank") {
  const Cluster cluster = cluster_of(2, 2);
  const Topology topology(cluster);
  const auto inside =
      loads(topology, ring_flows(topology, Opcode::broadcast, std::vector<std::int64_t>{0, 1}));
  CHECK(inside == std::map<std::string, double>{{"node0.gpu0.nvlink_tx", 1}, {"node0.gpu1.nvlink_rx", 1}});
  const auto across =
      loads(topology, ring_flows(topology, Opcode::broadcast, std::vector<std::int64_t>{0, 2}));
  CHECK(across == std::map<std::string, double>{{"node0.nic0.tx", 1}, {"node1.nic0.rx", 1}});
}

TEST_CASE("an all-to-all brings every rank the share of every other") {
  const std::int64_t nodes = GENERATE(1, 2, 3), per_node = GENERATE(1, 2, 4);
  const Cluster cluster = cluster_of(3, 4);
  const Topology topology(cluster);
  const std::vector<std::int64_t> devices = first_gpus(cluster, nodes, per_node);
  const auto n = static_cast<double>(devices.size()), k = static_cast<double>(per_node);
  for (const auto& [link, share] : loads(topology, direct_all_to_all_flows(topology, devices))) {
    INFO(link);
    CHECK(share == Approx(link.find("nic") == std::string::npos ? (k - 1) / n : (n - k) / n));
  }
}

TEST_CASE("two NICs for four GPUs halve what crosses nodes") {
  Cluster cluster = cluster_of(2, 4);
  cluster.inter_node.latency_s = cluster.intra_node.latency_s = 0;
  const std::vector<std::int64_t> eight = first_gpus(cluster, 2, 4);
  CHECK(seconds(cluster, Opcode::broadcast, eight, 100e6) == Approx(2.5e-3));  // 100 MB / (4 x 10 GB/s)
  cluster.nics_per_node = 2;
  CHECK(seconds(cluster, Opcode::broadcast, eight, 100e6) == Approx(5e-3));
}

TEST_CASE("oversubscribed uplinks limit what leaves a leaf") {
  Cluster cluster = cluster_of(4, 1);
  cluster.inter_node.latency_s = 0;
  cluster.fabric = {FabricTopology::leaf_spine, true, 2, 1, 4, 3e-6};
  // Leaves of two NICs of 10 GB/s, 20 / 4 = 5 GB/s up. The ring 0-1-2-3 leaves each leaf once: 3/4 x 100 MB /
  // 5 GB/s, and one of its three hops, at worst both of those between leaves, passes the spine.
  CHECK(seconds(cluster, Opcode::all_gather, {0, 1, 2, 3}, 100e6) == Approx(15e-3 + 6e-6));
  CHECK(seconds(cluster, Opcode::all_gather, {0, 1}, 100e6) == Approx(5e-3));
  // Two transfers that leave one leaf share its 5 GB/s.
  const Topology topology(cluster);
  const std::vector<ExchangeFlows> both = {transfer_flows(topology, 0, 2), transfer_flows(topology, 1, 3)};
  CHECK(lockstep_seconds(topology, {both.data(), 1}, 1e6) == Approx(203e-6));
  CHECK(lockstep_seconds(topology, both, 1e6) == Approx(403e-6));
  CHECK(transfer_flows(topology, 1, 1).empty());
}

TEST_CASE("a ring of n ranks is O(n) flows, an all-to-all of many ranks too") {
  const Cluster cluster = cluster_of(4000, 8);
  const Topology topology(cluster);
  std::vector<std::int64_t> devices(32000);
  std::iota(devices.begin(), devices.end(), 0);
  CHECK(ring_flows(topology, Opcode::all_reduce, devices).at(0).flows.size() == 2 * devices.size());
  const ExchangeFlows pairwise = direct_all_to_all_flows(topology, devices);
  CHECK(pairwise.at(0).flows.size() == 2 * devices.size());
  // 7 hops within a node and 31,992 messages beyond; 31992 / 32000 x 1 GB / 10 GB/s
  CHECK(lockstep_seconds(topology, {&pairwise, 1}, 1e9) == Approx(7e-6 + 31992 * 5e-6 + 0.099975));
}

}  // namespace simrun
