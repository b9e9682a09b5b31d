// Degraded and failed links, and background traffic.
#include <catch2/catch.hpp>

#include "sim/link_pattern.h"
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

std::vector<std::string> names(const Topology& topology, std::int64_t from, std::int64_t to) {
  std::vector<std::string> names;
  const Route route = topology.route(from, to);
  for (const LinkIndex link : route.links()) names.push_back(topology.name(link));
  return names;
}

double bandwidth_of(const Topology& topology, const std::string& name) {
  for (LinkIndex link = 0; link < topology.links(); ++link)
    if (topology.name(link) == name) return topology.bandwidth(link);
  FAIL(name);
  return 0;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a pattern's star stands for any characters, its question mark for one") {
  CHECK(matches_pattern("node0.nic1.*", "node0.nic1.tx"));
  CHECK_FALSE(matches_pattern("node0.nic1.*", "node0.nic11.tx"));
  CHECK(matches_pattern("node*.nic?.rx", "node12.nic3.rx"));
  CHECK_FALSE(matches_pattern("node*.nic?.rx", "node12.nic13.rx"));
  CHECK(matches_pattern("*a*b*", "xxaxaxb"));
  CHECK_FALSE(matches_pattern("*a*b", "ba"));
  CHECK(matches_pattern("*", ""));
  CHECK_FALSE(matches_pattern("", "x"));
}

TEST_CASE("a degraded link has a share of its bandwidth, and its latency adds to routes over it") {
  Cluster cluster = cluster_of(2, 2, 2);
  cluster.imperfections.links = {{"fibre", "node0.nic1.*", 0.5, 3e-6}, {"both", "node?.nic1.tx", 0.5, 1e-6}};
  const Topology topology(cluster);
  CHECK(bandwidth_of(topology, "node0.nic0.tx") == 10e9);
  CHECK(bandwidth_of(topology, "node0.nic1.rx") == 5e9);
  CHECK(bandwidth_of(topology, "node0.nic1.tx") == 2.5e9);  // a half of a half
  CHECK(topology.route(0, 2).latency_s == 5e-6);
  CHECK(topology.route(1, 3).latency_s == Approx(9e-6));  // 5 + 3 + 1 us
  CHECK(topology.route(3, 1).latency_s == Approx(9e-6));  // tx of node 1, rx of node 0
}

TEST_CASE("without a NIC its GPU and the one at the other end use those of their neighbours") {
  Cluster cluster = cluster_of(2, 4, 4);
  cluster.imperfections.links = {{"dead", "node0.nic1.tx", 0, 0}};
  const Topology topology(cluster);
  CHECK(names(topology, 1, 5) == Names{"node0.nic2.tx", "node1.nic2.rx"});
  CHECK(names(topology, 5, 1) == Names{"node1.nic1.tx", "node0.nic1.rx"});  // the way back is open
  CHECK(names(topology, 0, 4) == Names{"node0.nic0.tx", "node1.nic0.rx"});
  CHECK(names(topology, 1, 2) == Names{"node0.gpu1.nvlink_tx", "node0.gpu2.nvlink_rx"});
}

TEST_CASE("without a spine's link traffic between its leaves takes the next spine") {
  Cluster cluster = cluster_of(4, 1, 1);
  cluster.fabric = {FabricTopology::leaf_spine, true, 2, 3, 1, 2e-6};
  const Names before = names(Topology(cluster), 0, 2);
  REQUIRE(before.size() == 4);
  cluster.imperfections.links = {{"dead", before[1], 0, 0}};
  const Topology topology(cluster);
  const Names after = names(topology, 0, 2);
  REQUIRE(after.size() == 4);
  CHECK(after.front() == before.front());
  CHECK(after.back() == before.back());
  CHECK(after[1] != before[1]);
  CHECK(names(topology, 0, 1) == Names{"node0.nic0.tx", "node1.nic0.rx"});
}

TEST_CASE("where no way is left the error names the links") {
  Cluster cluster = cluster_of(2, 2, 2);
  cluster.imperfections.links = {{"dead", "node1.nic?.rx", 0, 0}};
  CHECK_THROWS_WITH(
      Topology(cluster).route(1, 2),
      "imperfections.links: GPU 1 of node 0 cannot reach GPU 0 of node 1 without node1.nic0.rx");
  CHECK(names(Topology(cluster), 2, 0) == Names{"node1.nic0.tx", "node0.nic0.rx"});
  cluster.imperfections.links = {{"dead", "node0.gpu1.nvlink_tx", 0, 0}};
  CHECK_THROWS_WITH(
      Topology(cluster).route(1, 0),
      "imperfections.links: GPU 1 of node 0 cannot reach GPU 0 of node 0 without node0.gpu1.nvlink_tx");
}

TEST_CASE("a NIC that has lost a plane sends over the other") {
  Cluster cluster = cluster_of(4, 1, 1);
  cluster.fabric = {FabricTopology::leaf_spine, true, 2, 2, 1, 2e-6};
  cluster.fabric.planes = 2;
  const Names before = names(Topology(cluster), 0, 2);
  REQUIRE(before.size() == 4);
  const bool first = before[0] == "node0.nic0.plane0.tx";
  cluster.imperfections.links = {{"dead", before[0], 0, 0}};
  const Names after = names(Topology(cluster), 0, 2);
  REQUIRE(after.size() == 4);
  CHECK(after.front() == (first ? "node0.nic0.plane1.tx" : "node0.nic0.plane0.tx"));
  CHECK(after.back() == (first ? "node2.nic0.plane1.rx" : "node2.nic0.plane0.rx"));
}

TEST_CASE("a GPU without its NVLink is not reached over another one's, in its domain's other nodes neither") {
  Cluster cluster = cluster_of(2, 2, 2);
  cluster.wiring.nodes_per_domain = 2;
  cluster.imperfections.links = {{"dead", "node0.gpu1.nvlink_tx", 0, 0}};
  CHECK_THROWS_WITH(
      Topology(cluster).route(1, 2),
      "imperfections.links: GPU 1 of node 0 cannot reach GPU 0 of node 1 without node0.gpu1.nvlink_tx");
  CHECK(names(Topology(cluster), 2, 1).size() == 2);  // the way back
}

TEST_CASE("a pattern that no link has is refused with names that links have") {
  Cluster cluster = cluster_of(2, 1, 1);
  cluster.imperfections.links = {{"typo", "node9.nic0.*", 0.5, 0}};
  CHECK_THROWS_WITH(
      Topology(cluster),
      "imperfections.links.typo: no link of this cluster is called 'node9.nic0.*'; the first is "
      "node0.gpu0.nvlink_tx, the last node1.nic0.rx");
}

TEST_CASE("links that a measurement of the node stands for cannot be faulty") {
  Cluster cluster = cluster_of(2, 2, 2);
  cluster.measured["all_reduce"] = {{2, 1e-6, 1e9}};
  cluster.imperfections.links = {{"fibre", "node0.nic?.tx", 0.5, 0}};
  CHECK(bandwidth_of(Topology(cluster), "node0.nic1.tx") == 5e9);
  cluster.imperfections.links = {{"all", "node0.*", 0.5, 0}};
  CHECK_THROWS_WITH(Topology(cluster),
                    "imperfections.links: node0.gpu0.nvlink_tx is inside a node, where "
                    "cluster.measured stands in the place of links");
}

TEST_CASE("background traffic takes its rate from every link that it crosses") {
  Cluster cluster = cluster_of(3, 2, 2);
  cluster.imperfections.background = {{.name = "storage", .from = {0}, .to = {2}, .rate = 4e9}};
  const Topology topology(cluster);
  // 4 GB/s over two NICs: 2 GB/s each.
  CHECK(bandwidth_of(topology, "node0.nic0.tx") == 8e9);
  CHECK(bandwidth_of(topology, "node0.nic1.tx") == 8e9);
  CHECK(bandwidth_of(topology, "node2.nic1.rx") == 8e9);
  CHECK(bandwidth_of(topology, "node0.nic0.rx") == 10e9);
  CHECK(bandwidth_of(topology, "node1.nic0.tx") == 10e9);
}

TEST_CASE("a permutation loads every node's NICs alike, in both directions") {
  Cluster cluster = cluster_of(5, 2, 2);
  cluster.imperfections.seed = 3;
  cluster.imperfections.background = {{.name = "others", .permutation = true, .share = 0.3}};
  const Topology topology(cluster);
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    const bool is_nic = topology.name(link).find("nic") != std::string::npos;
    CHECK(topology.bandwidth(link) == Approx(is_nic ? 7e9 : 100e9));
  }
}

TEST_CASE("two GPUs on one NIC put their node's share on it, and traffic that leaves nothing is refused") {
  Cluster cluster = cluster_of(2, 4, 2);
  cluster.imperfections.background = {{.name = "others", .from = {1}, .to = {0}, .share = 0.5}};
  CHECK(bandwidth_of(Topology(cluster), "node1.nic1.tx") == Approx(5e9));
  cluster.imperfections.links = {{"half", "node0.nic0.rx", 0.5, 0}};
  CHECK_THROWS_WITH(Topology(cluster),
                    "imperfections.background.others: with 5 GB/s of background traffic nothing is left of "
                    "the 5 GB/s of node0.nic0.rx");
}

TEST_CASE("background traffic may be stated by the links that it crosses") {
  Cluster cluster = cluster_of(4, 1, 1);
  cluster.fabric = {FabricTopology::leaf_spine, true, 2, 2, 1, 2e-6};
  cluster.imperfections.background = {
      {.name = "neighbour", .pattern = "rail0.leaf*.spine1.*", .share = 0.25}};
  const Topology topology(cluster);
  CHECK(bandwidth_of(topology, "rail0.leaf0.spine1.up") == 7.5e9);  // 2 NICs x 10 GB/s / 2 spines
  CHECK(bandwidth_of(topology, "rail0.leaf1.spine1.down") == 7.5e9);
  CHECK(bandwidth_of(topology, "rail0.leaf0.spine0.up") == 10e9);
}

}  // namespace simrun
