#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "configs/limits.h"
#include "sim/topology.h"

namespace simrun {
namespace {

// 100 GB/s and 1 us within a node, 10 GB/s and 5 us per NIC, 2 us more through a spine.
Cluster cluster_of(std::int64_t nodes, std::int64_t gpus, std::int64_t nics) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus;
  cluster.nics_per_node = nics;
  cluster.intra_node = {125e9, 1e-6, 0.8};
  cluster.inter_node = {12.5e9, 5e-6, 0.8};
  return cluster;
}

Fabric leaf_spine(bool rail_optimized, std::int64_t nodes_per_leaf, std::int64_t spines,
                  double oversubscription = 1) {
  return {FabricTopology::leaf_spine, rail_optimized, nodes_per_leaf, spines, oversubscription, 2e-6};
}

std::vector<std::string> names(const Topology& topology, std::int64_t from, std::int64_t to) {
  std::vector<std::string> names;
  const Route route = topology.route(from, to);
  for (const LinkIndex link : route.links()) names.push_back(topology.name(link));
  return names;
}

// The other direction of a link.
LinkIndex opposite(LinkIndex link) { return link ^ 1u; }

}  // namespace

TEST_CASE("a node's GPUs meet in its switch, nodes over their NICs") {
  const Topology topology(cluster_of(2, 4, 2));
  CHECK(topology.links() == 2 * 8 + 2 * 4);
  CHECK(names(topology, 1, 3) == std::vector<std::string>{"node0.gpu1.nvlink_tx", "node0.gpu3.nvlink_rx"});
  CHECK(topology.route(1, 3).latency_s == 1e-6);
  CHECK(topology.bandwidth(topology.route(1, 3).link[0]) == 100e9);
  // Four GPUs on two NICs: GPUs 0 and 1 on the first, 2 and 3 on the second.
  CHECK(names(topology, 1, 6) == std::vector<std::string>{"node0.nic0.tx", "node1.nic1.rx"});
  CHECK(names(topology, 0, 6) == names(topology, 1, 7));
  CHECK(topology.route(1, 6).latency_s == 5e-6);
  CHECK(topology.bandwidth(topology.route(1, 6).link[1]) == 10e9);
}

TEST_CASE("a rail stays on its leaf within nodes_per_leaf nodes, and else passes one spine") {
  Cluster cluster = cluster_of(5, 2, 2);
  cluster.fabric = leaf_spine(true, 2, 1);
  const Topology topology(cluster);
  // Five nodes, two per leaf: three leaves on each of two rails.
  CHECK(topology.links() == 2 * (10 + 10 + 6));
  CHECK(names(topology, 0, 2) == std::vector<std::string>{"node0.nic0.tx", "node1.nic0.rx"});
  CHECK(names(topology, 1, 9) == std::vector<std::string>{"node0.nic1.tx", "rail1.leaf0.spine0.up",
                                                          "rail1.leaf2.spine0.down", "node4.nic1.rx"});
  // Another rail is another leaf, even under the same nodes.
  CHECK(names(topology, 0, 3) == std::vector<std::string>{"node0.nic0.tx", "rail0.leaf0.spine0.up",
                                                          "rail1.leaf0.spine0.down", "node1.nic1.rx"});
  CHECK(topology.route(0, 2).latency_s == 5e-6);
  CHECK(topology.route(0, 3).latency_s == Approx(7e-6));

  cluster.fabric.rail_optimized = false;
  const Topology mixed(cluster);
  CHECK(names(mixed, 0, 3) == std::vector<std::string>{"node0.nic0.tx", "node1.nic1.rx"});
  CHECK(names(mixed, 0, 9) ==
        std::vector<std::string>{"node0.nic0.tx", "leaf0.spine0.up", "leaf2.spine0.down", "node4.nic1.rx"});
}

TEST_CASE("more nodes per leaf than there are nodes: no spine is passed") {
  Cluster cluster = cluster_of(2, 2, 2);
  cluster.fabric = leaf_spine(true, 32, 16);
  const Topology topology(cluster);
  CHECK(topology.route(0, 2).count() == 2);
  CHECK(topology.route(1, 3).count() == 2);
}

TEST_CASE("every route of small clusters leads from the sender's port to the receiver's and back") {
  const std::int64_t nodes = GENERATE(1, 2, 3, 5);
  const std::int64_t nics = GENERATE(1, 2, 4);
  const int fabric = GENERATE(0, 1, 2);
  Cluster cluster = cluster_of(nodes, 4, nics);
  if (fabric > 0) cluster.fabric = leaf_spine(fabric == 1, 2, 3);
  CAPTURE(nodes, nics, fabric);
  const Topology topology(cluster);
  for (std::int64_t from = 0; from < nodes * 4; ++from)
    for (std::int64_t to = 0; to < nodes * 4; ++to) {
      if (from == to) continue;
      const Route there = topology.route(from, to), back = topology.route(to, from);
      const std::set<LinkIndex> distinct(there.links().begin(), there.links().end());
      bool is_good = distinct.size() == there.count() && *distinct.rbegin() < topology.links();
      is_good &= there.count() == back.count() && there.latency_s == back.latency_s;
      for (std::size_t i = 0; i < there.count(); ++i)
        is_good &= back.link[there.count() - 1u - i] == opposite(there.link[i]);
      // The sender's port sends to all, and only to it the receiver's port brings what others send.
      const bool is_inside = from / 4 == to / 4;
      const std::string own = is_inside ? ".gpu" + std::to_string(from % 4) + ".nvlink_tx"
                                        : ".nic" + std::to_string(from % 4 * nics / 4) + ".tx";
      is_good &= topology.name(there.link[0]) == "node" + std::to_string(from / 4) + own;
      const std::string other = is_inside ? ".gpu" + std::to_string(to % 4) + ".nvlink_rx"
                                          : ".nic" + std::to_string(to % 4 * nics / 4) + ".rx";
      is_good &= topology.name(there.link[there.count() - 1u]) == "node" + std::to_string(to / 4) + other;
      const bool is_same_leaf =
          fabric == 0 || is_inside ||
          (from / 8 == to / 8 && (fabric == 2 || from % 4 * nics / 4 == to % 4 * nics / 4));
      is_good &= there.count() == (is_same_leaf ? 2 : 4);
      if (!is_good) FAIL("a bad route from " << from << " to " << to);
    }
}

TEST_CASE("names are unique, and so are the links behind them") {
  Cluster cluster = cluster_of(5, 4, 2);
  cluster.fabric = leaf_spine(GENERATE(true, false), 2, 3);
  const Topology topology(cluster);
  std::set<std::string> names;
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    names.insert(topology.name(link));
    CHECK(topology.bandwidth(link) > 0);
  }
  CHECK(names.size() == topology.links());
}

TEST_CASE("a leaf's uplinks together carry its NICs' bandwidth over the oversubscription") {
  const bool rails = GENERATE(true, false);
  const std::int64_t nodes_per_leaf = GENERATE(1, 2, 4);
  const std::int64_t spines = GENERATE(1, 3, 16);
  Cluster cluster = cluster_of(8, 4, 2);
  cluster.fabric = leaf_spine(rails, nodes_per_leaf, spines, 2);
  const Topology topology(cluster);
  std::map<std::string, double> up, down;  // by leaf
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    const std::string name = topology.name(link);
    const std::size_t spine = name.find(".spine");
    if (spine == std::string::npos) continue;
    (name.ends_with(".up") ? up : down)[name.substr(0, spine)] += topology.bandwidth(link);
  }
  CHECK(up == down);
  CHECK(static_cast<std::int64_t>(up.size()) == 8 / nodes_per_leaf * (rails ? 2 : 1));
  // 10 GB/s x (a NIC of each node, or both) / 2
  const double expected = 10e9 * static_cast<double>(nodes_per_leaf * (rails ? 1 : 2)) / 2;
  for (const auto& [leaf, bandwidth] : up) CHECK(bandwidth == Approx(expected));
}

TEST_CASE("one spine without oversubscription never limits what the leaf's NICs send and receive") {
  Cluster cluster = cluster_of(5, 4, 2);  // the last of three leaves has one node
  cluster.fabric = leaf_spine(GENERATE(true, false), 2, 1);
  const Topology topology(cluster);
  std::map<LinkIndex, std::set<LinkIndex>> ports;  // that send over a spine link, or receive from it
  for (std::int64_t from = 0; from < 20; ++from)
    for (std::int64_t to = 0; to < 20; ++to) {
      if (from == to) continue;
      const Route route = topology.route(from, to);
      CHECK(topology.can_limit(route.link[0]));
      if (route.count() < 4) continue;
      ports[route.link[1]].insert(route.link[0]);
      ports[route.link[2]].insert(route.link[3]);
    }
  REQUIRE_FALSE(ports.empty());
  for (const auto& [link, nics] : ports) {
    CHECK(static_cast<double>(nics.size()) * 10e9 <= topology.bandwidth(link) * (1 + 1e-12));
    CHECK_FALSE(topology.can_limit(link));
  }
  cluster.fabric.oversubscription = 1.5;
  CHECK(Topology(cluster).can_limit(ports.begin()->first));
}

TEST_CASE("pairs of NICs are spread over the spines, always alike") {
  Cluster cluster = cluster_of(64, 1, 1);
  cluster.fabric = leaf_spine(true, 1, 8);
  const Topology topology(cluster), again(cluster);
  std::map<LinkIndex, int> pairs;  // by uplink of a leaf
  for (std::int64_t from = 0; from < 64; ++from)
    for (std::int64_t to = 0; to < 64; ++to) {
      if (from == to) continue;
      const Route route = topology.route(from, to);
      ++pairs[route.link[1] % 16 / 2];  // 8 spines of 2 directions per leaf, after 2 x 128 ports
      if (names(again, from, to) != names(topology, from, to)) FAIL("another route");
    }
  // 64 x 63 / 8 = 504 pairs per spine on average.
  REQUIRE(pairs.size() == 8);
  for (const auto& [spine, count] : pairs) {
    CHECK(count > 504 * 0.8);
    CHECK(count < 504 * 1.2);
  }
}

TEST_CASE("the largest clusters that the loader accepts have 32-bit link numbers") {
  const auto links = [](Cluster cluster) {
    const double ports = 4.0 * static_cast<double>(cluster.nodes * cluster.gpus_per_node);
    CHECK(ports + static_cast<double>(limits::leaf_links) < 0x1p32);
    return static_cast<double>(Topology(cluster).links());
  };
  Cluster cluster = cluster_of(limits::world / 8, 8, 8);
  CHECK(links(cluster) == 4.0 * static_cast<double>(limits::world));
  cluster.fabric = leaf_spine(true, 1, limits::leaf_links / 2 / limits::world);
  CHECK(links(cluster) == 4.0 * static_cast<double>(limits::world) + static_cast<double>(limits::leaf_links));
  const Topology topology(cluster);
  CHECK(topology.name(topology.links() - 1) == "rail7.leaf1249999.spine49.down");
}

TEST_CASE("a cluster that says nothing of NICs has one per GPU") {
  CHECK(names(Topology(cluster_of(2, 4, 0)), 3, 7) ==
        std::vector<std::string>{"node0.nic3.tx", "node1.nic3.rx"});
}

}  // namespace simrun
