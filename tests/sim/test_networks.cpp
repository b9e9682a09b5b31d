#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "configs/network_rules.h"
#include "sim/exchange_costs.h"
#include "tests/sim/network_clusters.h"

namespace simrun {
namespace {

using namespace test;

using Names = std::vector<std::string>;

Names route_names(const Topology& topology, std::int64_t from, std::int64_t to) {
  return names_of(topology, topology.route(from, to));
}

double bottleneck(const Topology& topology, std::int64_t from, std::int64_t to) {
  double least = 1e300;
  const Route route = topology.route(from, to);
  for (const LinkIndex link : route.links()) least = std::min(least, topology.bandwidth(link));
  return least;
}

// Bytes/s of all links whose name says so.
double sum_of(const Topology& topology, const std::string& part, const std::string& end) {
  double sum = 0;
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    const std::string name = topology.name(link);
    if (name.find(part) != std::string::npos && name.ends_with(end)) sum += topology.bandwidth(link);
  }
  return sum;
}

Cluster
fat_tree_of_16() {  // k = 4: two leaves, two spines per pod, four cores (Al-Fares et al. 2008, figure 3)
  Cluster cluster = plain_cluster(16, 1);
  cluster.fabric = {FabricTopology::fat_tree, true, 2, 2};
  cluster.fabric.leaves_per_pod = 2;
  cluster.fabric.cores = 4;
  return cluster;
}

// Every device of the first `half` sends 1 byte to the one as far in the second.
double shifted_seconds(const Topology& topology, std::int64_t devices) {
  std::vector<ExchangeFlows> exchanges;
  for (std::int64_t from = 0; from < devices / 2; ++from) {
    const Route route = topology.route(from, from + devices / 2);
    exchanges.push_back({{0, {{route, 1}}}});
  }
  return lockstep_costs(topology, exchanges).together.seconds_per_byte;
}

}  // namespace

TEST_CASE("every hop of every route begins where the one before it ended") {
  for (const NamedCluster& of : every_network()) {
    CAPTURE(of.name);
    REQUIRE(network_faults(of.cluster).empty());
    const Topology topology(of.cluster);
    std::vector<LinkEnds> ends;
    for (LinkIndex link = 0; link < topology.links(); ++link)
      ends.push_back(ends_of(topology, of.cluster, link));
    const std::int64_t devices = of.cluster.nodes * of.cluster.gpus_per_node;
    // Between a GPU and its NIC there is no link where PCIe limits nothing.
    std::set<std::pair<std::string, std::string>> steps;
    for (std::int64_t device = 0; of.cluster.fabric.topology != FabricTopology::torus && device < devices;
         ++device) {
      const std::string gpu = fmt::format("gpu{}", device),
                        nic = fmt::format("node{}.nic{}", topology.node_of(device), topology.rail_of(device));
      steps.insert({{gpu, nic}, {nic, gpu}});
    }
    for (std::int64_t from = 0; from < devices; ++from)
      for (std::int64_t to = 0; to < devices; ++to) {
        if (from == to) continue;
        const Route route = topology.route(from, to);
        std::set<LinkIndex> distinct;
        std::string at = fmt::format("gpu{}", from);
        bool is_good = route.latency_s > 0;
        const auto moves_to = [&](const std::string& place) {
          return at == place || steps.contains({at, place});
        };
        for (const LinkIndex link : route.links()) {
          is_good = is_good && link < topology.links() && distinct.insert(link).second &&
                    !ends[link].from.empty() && moves_to(ends[link].from);
          at = ends[link].to;
        }
        is_good = is_good && moves_to(fmt::format("gpu{}", to));
        if (!is_good)
          FAIL("from " << from << " to " << to << ": "
                       << fmt::format("{}", fmt::join(names_of(topology, route), " ")));
      }
  }
}

TEST_CASE("links have distinct names and a rate, and most routes come back the way they went") {
  for (const NamedCluster& of : every_network()) {
    CAPTURE(of.name);
    const Topology topology(of.cluster);
    std::set<std::string> names;
    for (LinkIndex link = 0; link < topology.links(); ++link) {
      names.insert(topology.name(link));
      if (!(topology.bandwidth(link) > 0)) FAIL(topology.name(link));
    }
    CHECK(names.size() == topology.links());
    const Fabric& fabric = of.cluster.fabric;
    const bool same_way = fabric.routing != PathChoice::static_by_destination && !fabric.pxn &&
                          fabric.topology != FabricTopology::torus;
    const std::int64_t devices = of.cluster.nodes * of.cluster.gpus_per_node;
    for (std::int64_t from = 0; from < devices; ++from)
      for (std::int64_t to = 0; to < from; ++to) {
        const Route there = topology.route(from, to), back = topology.route(to, from);
        bool is_good = there.count() == back.count() && there.latency_s == Approx(back.latency_s);
        for (std::size_t i = 0; same_way && is_good && i < there.count(); ++i)
          is_good = back.link[there.count() - 1 - i] == (there.link[i] ^ 1u);
        if (!is_good) FAIL("from " << from << " to " << to);
      }
  }
}

TEST_CASE(
    "the DGX-1's cube mesh: six links per GPU, two on some pairs, and a neighbour in between on others") {
  const Topology topology(cube_mesh_cluster());
  CHECK(topology.links() == 2 * (16 + 8));  // pairs of GPUs, and NICs
  CHECK(route_names(topology, 0, 3) == Names{"node0.gpu0.nvlink_gpu3"});
  CHECK(route_names(topology, 3, 0) == Names{"node0.gpu3.nvlink_gpu0"});
  CHECK(bottleneck(topology, 0, 3) == 50e9);  // two links of 150 / 6 GB/s
  CHECK(bottleneck(topology, 0, 1) == 25e9);
  CHECK(topology.route(0, 3).latency_s == 2e-6);
  // 0 and 5 have 1 (NV1, NV2) and 4 (NV2, NV1) in common: the first.
  CHECK(route_names(topology, 0, 5) == Names{"node0.gpu0.nvlink_gpu1", "node0.gpu1.nvlink_gpu5"});
  CHECK(topology.route(0, 5).latency_s == 4e-6);
  std::map<std::size_t, int> pairs;  // by hops
  for (std::int64_t from = 0; from < 8; ++from)
    for (std::int64_t to = 0; to < 8; ++to)
      if (from != to) ++pairs[topology.route(from, to).count()];
  CHECK(pairs == std::map<std::size_t, int>{{1, 8 * 4}, {2, 8 * 3}});
  // A GPU's links together: 6 x 25 GB/s.
  CHECK(sum_of(topology, "gpu2.nvlink_gpu", "") == Approx(150e9));
}

TEST_CASE("a mesh that does not relay, and a box without NVLink, go through PCIe switches and sockets") {
  Cluster cluster = plain_cluster(2, 4);
  cluster.nics_per_node = 2;
  cluster.wiring.pcie = two_sockets();
  cluster.wiring.topology = IntraNodeTopology::nvlink_mesh;
  cluster.wiring.nvlinks = {{0, 1, 2}, {1, 2, 1}, {2, 3, 2}};
  cluster.wiring.relay = false;
  const Topology mesh(cluster);
  CHECK(route_names(mesh, 1, 2) == Names{"node0.gpu1.nvlink_gpu2"});
  CHECK(route_names(mesh, 0, 2) == Names{"node0.gpu0.pcie_tx", "node0.pcie0.up", "node0.socket0.socket1",
                                         "node0.pcie1.down", "node0.gpu2.pcie_rx"});
  CHECK(mesh.route(0, 2).latency_s == Approx(3e-6));  // 2 us of PCIe, 1 us between sockets
  CHECK(bottleneck(mesh, 0, 2) == 8e9);
  cluster.wiring.topology = IntraNodeTopology::pcie;
  const Topology tree(cluster);
  CHECK(route_names(tree, 0, 1) == Names{"node0.gpu0.pcie_tx", "node0.gpu1.pcie_rx"});
  CHECK(tree.route(0, 1).latency_s == 2e-6);
  CHECK_FALSE(tree.is_switched());
}

TEST_CASE(
    "a NIC that reads GPU memory is on the GPU's switch; without GPU-direct bytes pass the host twice") {
  Cluster cluster = plain_cluster(2, 4);
  cluster.nics_per_node = 2;
  cluster.wiring.pcie = two_sockets();
  const Topology direct(cluster);
  CHECK(route_names(direct, 3, 4) == Names{"node0.gpu3.pcie_tx", "node0.nic1.pcie_rx", "node0.nic1.tx",
                                           "node1.nic0.rx", "node1.nic0.pcie_tx", "node1.gpu0.pcie_rx"});
  CHECK(direct.route(3, 4).latency_s == 5e-6);
  cluster.wiring.gpu_direct = false;
  const Topology through(cluster);
  const Names names = route_names(through, 3, 4);
  CHECK(Names(names.begin(), names.begin() + 4) ==
        Names{"node0.gpu3.pcie_tx", "node0.pcie1.up", "node0.pcie1.down", "node0.nic1.pcie_rx"});
  CHECK(names.size() == 10);
  CHECK(through.route(3, 4).latency_s == Approx(5e-6 + 2 * 2 * 2e-6));
  // NICs in the other order: each GPU takes the one on its own switch.
  cluster.wiring.pcie.nic_switches = {1, 0};
  CHECK(Topology(cluster).rail_of(3) == 0);
  CHECK(Topology(cluster).rail_of(0) == 1);
}

TEST_CASE("several NICs of a GPU are one port, and several GPUs share one") {
  Cluster cluster = plain_cluster(2, 2);
  cluster.nics_per_node = 8;
  const Topology four(cluster);
  CHECK(route_names(four, 1, 2) == Names{"node0.nic4-7.tx", "node1.nic0-3.rx"});
  CHECK(bottleneck(four, 1, 2) == 4 * 10e9);
  cluster.nics_per_node = 1;
  const Topology shared(cluster);
  CHECK(route_names(shared, 1, 2) == route_names(shared, 0, 3));
}

TEST_CASE("an NVLink domain of several nodes is one switch, and NICs serve what leaves it") {
  Cluster cluster = plain_cluster(36, 4);
  cluster.wiring.nodes_per_domain = 18;
  const Topology topology(cluster);
  CHECK(topology.domain_of(71) == 0);
  CHECK(topology.domain_of(72) == 1);
  CHECK(route_names(topology, 0, 71) == Names{"node0.gpu0.nvlink_tx", "node17.gpu3.nvlink_rx"});
  CHECK(topology.route(0, 71).latency_s == 1e-6);
  CHECK(route_names(topology, 0, 72) == Names{"node0.nic0.tx", "node18.nic0.rx"});
}

TEST_CASE("a three-level fat tree is as wide as its hosts, over the oversubscription of each level") {
  const Topology topology(fat_tree_of_16());
  CHECK(route_names(topology, 0, 1) == Names{"node0.nic0.tx", "node1.nic0.rx"});
  CHECK(topology.route(0, 2).count() == 4);
  CHECK(topology.route(0, 4).count() == 6);
  // Two pods face two: 2 pods x 2 spines x 2 cores x 10 GB/s = 8 hosts x 10 GB/s.
  CHECK(sum_of(topology, "pod0.", ".up") + sum_of(topology, "pod1.", ".up") == Approx(8 * 10e9));
  CHECK(sum_of(topology, "leaf0.", ".up") == Approx(2 * 10e9));
  Cluster thin = fat_tree_of_16();
  thin.fabric.oversubscription = 2;
  thin.fabric.core_oversubscription = 4;
  CHECK(sum_of(Topology(thin), "leaf0.", ".up") == Approx(2 * 10e9 / 2));
  CHECK(sum_of(Topology(thin), "pod0.", ".up") == Approx(4 * 10e9 / 2 / 4));
}

TEST_CASE("flows that hash to one link collide; static routes and spraying carry a shift at full rate") {
  // 16 hosts under each of two leaves of 8 spines (two NICs' worth each): all of one leaf send to the other.
  Cluster cluster = plain_cluster(32, 1);
  cluster.fabric = {FabricTopology::leaf_spine, true, 16, 16};
  const double alone = 1 / 10e9;
  cluster.fabric.routing = PathChoice::spray;
  CHECK(shifted_seconds(Topology(cluster), 32) == Approx(alone));
  cluster.fabric.routing = PathChoice::static_by_destination;
  CHECK(shifted_seconds(Topology(cluster), 32) == Approx(alone));
  cluster.fabric.routing = PathChoice::ecmp;
  // 16 flows on 16 links by chance: with probability 16! / 16^16 = 1e-6 no two meet.
  const double hashed = shifted_seconds(Topology(cluster), 32);
  CHECK(hashed >= 2 * alone * (1 - 1e-12));
  CHECK(hashed <= 5 * alone);
  // A fat tree, whose cores are chosen as well.
  Cluster tree = fat_tree_of_16();
  tree.fabric.routing = PathChoice::static_by_destination;
  CHECK(shifted_seconds(Topology(tree), 16) == Approx(alone));
  tree.fabric.routing = PathChoice::spray;
  CHECK(shifted_seconds(Topology(tree), 16) == Approx(alone));
  CHECK_FALSE(Topology(tree).can_limit(Topology(tree).route(0, 15).link[2]));
}

TEST_CASE(
    "with PXN what goes to another rail changes it inside the node, and only there where rails are apart") {
  Cluster cluster = plain_cluster(4, 2);
  cluster.fabric = {FabricTopology::leaf_spine, true, 2, 1};
  CHECK(route_names(Topology(cluster), 0, 3) ==
        Names{"node0.nic0.tx", "rail0.leaf0.spine0.up", "rail1.leaf0.spine0.down", "node1.nic1.rx"});
  cluster.fabric.pxn = cluster.fabric.rail_only = true;
  const Topology pxn(cluster);
  CHECK(route_names(pxn, 0, 3) ==
        Names{"node0.gpu0.nvlink_tx", "node0.gpu1.nvlink_rx", "node0.nic1.tx", "node1.nic1.rx"});
  CHECK(pxn.route(0, 3).latency_s == Approx(1e-6 + 5e-6));
  CHECK(route_names(pxn, 0, 2) == Names{"node0.nic0.tx", "node1.nic0.rx"});
  for (std::int64_t from = 0; from < 8; ++from)
    for (std::int64_t to = 0; to < 8; ++to) {
      if (from / 2 == to / 2) continue;
      const std::string rail = fmt::format("rail{}", to % 2);
      for (const std::string& name : route_names(pxn, from, to))
        if (name.starts_with("rail")) CHECK(name.starts_with(rail));
    }
}

TEST_CASE("each of two planes has half of every NIC, and flows are on either") {
  Cluster cluster = plain_cluster(32, 1);
  cluster.fabric = {FabricTopology::leaf_spine, true, 16, 1};
  cluster.fabric.planes = 2;
  const Topology topology(cluster);
  CHECK(topology.links() == 2 * (32 + 2 * (32 + 2)));
  CHECK(bottleneck(topology, 0, 31) == 5e9);
  std::map<std::string, int> flows;
  for (std::int64_t to = 1; to < 32; ++to) {
    const Names names = route_names(topology, 0, to);
    const std::string plane = names.front().substr(11, 6);
    ++flows[plane];
    for (const std::string& name : names) CHECK(name.find(plane) != std::string::npos);
  }
  REQUIRE(flows.size() == 2);
  for (const auto& [plane, count] : flows) CHECK(count > 5);
  cluster.fabric.routing = PathChoice::spray;
  CHECK(bottleneck(Topology(cluster), 0, 31) == 10e9);
}

TEST_CASE("dragonfly+: any two pods are joined by equal links, one hop apart") {
  Cluster cluster = plain_cluster(24, 1);  // 6 pods of 2 leaves x 2 nodes
  cluster.fabric = {FabricTopology::dragonfly_plus, true, 2, 2};
  cluster.fabric.leaves_per_pod = 2;
  const Topology topology(cluster);
  CHECK(topology.route(0, 2).count() == 4);
  CHECK(topology.route(0, 23).count() == 5);
  // 4 NICs x 10 GB/s leave a pod over 2 spines x 5 other pods.
  CHECK(sum_of(topology, "pod2.spine", "pod5") == Approx(4 * 10e9 / 5));
  CHECK(sum_of(topology, "pod2.spine", "") == Approx(4 * 10e9));
}

TEST_CASE("a torus takes the shorter way round each dimension") {
  Cluster cluster = plain_cluster(16, 4);
  cluster.fabric.topology = FabricTopology::torus;
  cluster.fabric.torus = {4, 4, 4};
  cluster.fabric.hop_latency_s = 0.5e-6;
  const Topology topology(cluster);
  CHECK(topology.links() == 64 * 6);
  CHECK(route_names(topology, 0, 1) == Names{"gpu0.x_forward"});
  CHECK(route_names(topology, 0, 3) == Names{"gpu3.x_back"});  // around: from 0 back to 3
  CHECK(route_names(topology, 0, 16 + 4) == Names{"gpu0.y_forward", "gpu4.z_forward"});
  CHECK(topology.route(0, 1).latency_s == 5e-6);
  CHECK(topology.route(0, 42).latency_s == Approx(5e-6 + 5 * 0.5e-6));  // (2, 2, 2): six hops
  for (std::int64_t from = 0; from < 64; ++from) {
    std::size_t hops = 0;
    for (std::int64_t to = 0; to < 64; ++to)
      if (to != from) hops += topology.route(from, to).count();
    CHECK(hops == 64 * 3);  // 0 + 1 + 2 + 1 hops over each dimension's four places, on average 1
  }
  cluster.fabric.torus = {8, 8};
  cluster.fabric.torus_wraps = false;
  CHECK(Topology(cluster).route(0, 63).count() == 14);
  CHECK(Topology(cluster).route(63, 0).count() == 14);
}

TEST_CASE("a route of more links than lie in the list itself is copied whole") {
  Cluster cluster = plain_cluster(64, 1);
  cluster.fabric.topology = FabricTopology::torus;
  cluster.fabric.torus = {64};
  const Topology topology(cluster);
  const Route route = topology.route(0, 31);
  Route copy = route, assigned;
  assigned = copy;
  const auto links = [](const Route& of) {
    return std::vector<LinkIndex>(of.links().begin(), of.links().end());
  };
  CHECK(route.count() == 31);
  CHECK(links(assigned) == links(route));
  assigned.remove_if([](LinkIndex link) { return link > 6 * 20; });
  CHECK(assigned.count() == 21);
  CHECK(links(copy) == links(route));
}

}  // namespace simrun
