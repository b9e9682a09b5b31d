#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "sim/collective_all_to_all.h"
#include "sim/collective_table.h"
#include "sim/collective_tree.h"

namespace simrun {
namespace {

using enum CollectiveAlgorithm;

constexpr double inside = 100e9, between = 10e9;  // bytes/s

// 100 GB/s and 1 us within a node, 10 GB/s and 5 us per NIC; switches that reduce everywhere.
Cluster cluster_of(std::int64_t nodes, std::int64_t gpus, CollectiveAlgorithm algorithm) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.nics_per_node = gpus;
  cluster.gpu.nvlink_bandwidth = 125e9;
  cluster.intra_node = {125e9, 1e-6, 0.8, true};
  cluster.inter_node = {12.5e9, 5e-6, 0.8, true};
  cluster.collectives.forced.algorithm = algorithm;
  return cluster;
}

std::vector<std::int64_t> all_devices(const Cluster& cluster) {
  std::vector<std::int64_t> devices;
  for (std::int64_t d = 0; d < cluster.nodes * cluster.gpus_per_node; ++d) devices.push_back(d);
  return devices;
}

struct Case {
  Opcode opcode;
  CollectiveAlgorithm algorithm;
  std::int64_t nodes, gpus;
  double latency_s;
  double seconds_per_byte;
};

// Closed forms, for k GPUs on each of N nodes and S bytes.
const std::vector<Case> cases{
    // 2 x 3/4 S over NVLink, 2 x 3 steps.
    {Opcode::all_reduce, ring, 1, 4, 6e-6, 1.5 / inside},
    // Four rings: 2 x 7/8 S / 4 on each NIC; 2 x (2 steps between and 5 inside).
    {Opcode::all_reduce, ring, 2, 4, 30e-6, 1.75 / 4 / between},
    // 2 x 3/4 S inside and 2 x 3 steps, then 2 x 1/2 S / 4 between and 2 steps.
    {Opcode::all_reduce, two_level, 2, 4, 16e-6, 1.5 / inside + 0.25 / between},
    // Chains: 2 x 3/4 S over NVLink, 2 x 3 steps.
    {Opcode::all_reduce, tree, 1, 4, 6e-6, 1.5 / inside},
    // Two nodes: each is root of one tree and leaf of the other, and sends half of S/4 up and half down.
    {Opcode::all_reduce, tree, 2, 4, 16e-6, 0.25 / between},
    // Four nodes: the busiest has three edges in one tree and one in the other, of half of S/4 each.
    {Opcode::all_reduce, tree, 4, 4, 26e-6, 0.5 / between},
    // Trees 1-2-0 and 2-0-1: three halves of S.
    {Opcode::all_reduce, tree, 3, 1, 10e-6, 1.5 / between},
    // The switch reads S from every GPU and writes S to it; S/4 each way are the GPU's own share.
    {Opcode::all_reduce, nvls, 1, 4, 1e-6, 1.25 / inside},
    {Opcode::all_gather, nvls, 1, 4, 1e-6, 1.0 / inside},
    {Opcode::reduce_scatter, nvls, 1, 4, 1e-6, 1.0 / inside},
    // S/4 to the fabric and back on each NIC.
    {Opcode::all_reduce, nvls, 3, 4, 6e-6, 0.25 / between},
    {Opcode::all_reduce, nvls_tree, 4, 4, 1e-6 + 20e-6, 0.5 / between},
    {Opcode::all_reduce, collnet_direct, 4, 4, 2e-6 + 5e-6, 0.25 / between},
    {Opcode::all_reduce, collnet_chain, 4, 4, 6e-6 + 5e-6, 0.25 / between},
    {Opcode::all_reduce, collnet_chain, 5, 1, 5e-6, 1.0 / between},
    // Four nodes: 1/4, then 2/4. Five: 1, then 1, then 2 of 5 parts (to places 4, 2, 1 and 3).
    {Opcode::all_gather, pat, 4, 1, 10e-6, 0.75 / between},
    {Opcode::reduce_scatter, pat, 5, 1, 15e-6, 0.8 / between},
    {Opcode::broadcast, ring, 2, 4, 2 * 5e-6 + 5e-6, 0.25 / between},
    // Down two trees; inside the first node all of S along the chain.
    {Opcode::broadcast, tree, 4, 4, 3e-6 + 10e-6, 0.25 / between},
    {Opcode::broadcast, tree, 1, 4, 3e-6, 1.0 / inside},
    // Half of S leaves the node: 4 messages between and 3 inside.
    {Opcode::all_to_all, direct, 2, 4, 23e-6, 0.5 / between},
    // One message between and three inside.
    {Opcode::all_to_all, hierarchical, 2, 4, 8e-6, 0.5 / between},
    {Opcode::send, direct, 2, 4, 5e-6, 1.0 / between}};

// Bytes per link, in shares of the tensor.
std::map<std::string, double> loads_of_flows(const Topology& topology, const ExchangeFlows& flows) {
  std::map<std::string, double> loads_of_flows;
  for (const FlowPhase& phase : flows)
    for (const SharedFlow& flow : phase.flows)
      for (const LinkIndex link : flow.route.links()) loads_of_flows[topology.name(link)] += flow.share;
  return loads_of_flows;
}

double load_of(const std::map<std::string, double>& loads_of_flows, const std::string& kind) {
  double sum = 0;
  for (const auto& [link, share] : loads_of_flows)
    if (link.find(kind) != std::string::npos) sum += share;
  return sum;
}

}  // namespace

TEST_CASE("every algorithm alone takes its closed form in SimGrid, to 1e-6") {
  for (const Case& of : cases) {
    CAPTURE(static_cast<int>(of.opcode), to_string(of.algorithm), of.nodes, of.gpus);
    CollectiveQuery query{cluster_of(of.nodes, of.gpus, of.algorithm),
                          of.opcode,
                          {of.nodes},
                          of.gpus,
                          {1 << 20, std::int64_t{1} << 30}};
    for (const CollectiveRow& row : collective_table(query)) {
      CHECK(to_string(row.choice.algorithm) == to_string(of.algorithm));
      const double expected = of.latency_s + static_cast<double>(row.bytes) * of.seconds_per_byte;
      CHECK(row.time_s == Approx(expected).epsilon(1e-6));
      CHECK(row.algbw == Approx(static_cast<double>(row.bytes) / expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("a limit of what one flow gets holds between nodes, for every connection, in SimGrid too") {
  constexpr double flow = 2e9;  // of NICs of 10
  const std::vector<Case> limited{
      {Opcode::all_reduce, ring, 1, 4, 6e-6, 1.5 / inside},  // no flow between nodes
      // One flow out of each NIC, with 2 x 7/8 S / 4.
      {Opcode::all_reduce, ring, 2, 4, 30e-6, 1.75 / 4 / flow},
      {Opcode::all_reduce, two_level, 2, 4, 16e-6, 1.5 / inside + 0.25 / flow},
      // Up to four flows of half of S/4 on a NIC: together 8 GB/s.
      {Opcode::all_reduce, tree, 4, 4, 26e-6, 0.125 / flow},
      {Opcode::all_reduce, collnet_chain, 5, 1, 5e-6, 1.0 / flow},
      {Opcode::all_gather, pat, 4, 1, 10e-6, 0.75 / flow},
      {Opcode::broadcast, tree, 4, 4, 3e-6 + 10e-6, 0.125 / flow},
      // A rank is connected with each of the other node's four.
      {Opcode::all_to_all, direct, 2, 4, 23e-6, 0.5 / (4 * flow)},
      {Opcode::all_to_all, hierarchical, 2, 4, 8e-6, 0.5 / flow},
      {Opcode::send, direct, 2, 4, 5e-6, 1.0 / flow}};
  for (const Case& of : limited) {
    CAPTURE(static_cast<int>(of.opcode), to_string(of.algorithm), of.nodes, of.gpus);
    Cluster cluster = cluster_of(of.nodes, of.gpus, of.algorithm);
    cluster.inter_node.flow_bandwidth = flow;
    const CollectiveQuery query{cluster, of.opcode, {of.nodes}, of.gpus, {1 << 20, std::int64_t{1} << 30}};
    for (const CollectiveRow& row : collective_table(query))
      CHECK(row.time_s ==
            Approx(of.latency_s + static_cast<double>(row.bytes) * of.seconds_per_byte).epsilon(1e-6));
  }
}

TEST_CASE("a pace that asks for less than a limited flow's rate changes nothing") {
  // A ring of two nodes of one GPU: S over each NIC at 2 GB/s. Channels give 5 GB/s.
  Cluster cluster = cluster_of(2, 1, ring);
  cluster.inter_node.flow_bandwidth = 2e9;
  cluster.collectives.paces[{ring, CollectiveProtocol::simple}].channel_bandwidth = 5e9;
  cluster.collectives.channels = 1;
  const CollectiveQuery query{cluster, Opcode::all_reduce, {2}, 1, {1'000'000'000}};
  CHECK(collective_table(query).at(0).time_s == Approx(0.5).epsilon(1e-3));
  cluster.inter_node.flow_bandwidth = 8e9;  // now the channels are slower
  CHECK(collective_table({cluster, Opcode::all_reduce, {2}, 1, {1'000'000'000}}).at(0).time_s ==
        Approx(0.2).epsilon(1e-3));
}

TEST_CASE("bus bandwidth is nccl-tests': of large rings that of the link") {
  const auto busbw = [](Opcode opcode, CollectiveAlgorithm algorithm) {
    return collective_table({cluster_of(1, 8, algorithm), opcode, {1}, 8, {std::int64_t{1} << 40}})[0].busbw;
  };
  for (const Opcode opcode :
       {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter, Opcode::broadcast})
    CHECK(busbw(opcode, ring) == Approx(inside).epsilon(1e-4));
  CHECK(busbw(Opcode::all_to_all, direct) == Approx(inside).epsilon(1e-4));
  // 1.75 / 1.125 of it where the switch reduces.
  CHECK(busbw(Opcode::all_reduce, nvls) == Approx(inside * 1.75 / 1.125).epsilon(1e-4));
}

TEST_CASE("double binary trees: every place has a parent in both, and is a leaf in one") {
  const std::size_t places = GENERATE(2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 32, 100);
  const bool is_rooted = GENERATE(false, true);
  CAPTURE(places, is_rooted);
  const std::vector<TreeEdge> edges =
      is_rooted ? rooted_double_binary_tree(places) : double_binary_tree(places);
  REQUIRE(edges.size() == 2 * (places - 1));
  std::vector<int> inner(places, 0);
  for (const std::size_t tree : {0, 1}) {
    std::vector<std::size_t> parent(places, places), children(places, 0);
    for (std::size_t e = tree * (places - 1); e < (tree + 1) * (places - 1); ++e) {
      CHECK(parent[edges[e].child] == places);  // one only
      parent[edges[e].child] = edges[e].parent;
      ++children[edges[e].parent];
    }
    CHECK(std::count(parent.begin(), parent.end(), places) == 1);  // the root
    if (is_rooted) CHECK(parent[0] == places);
    for (std::size_t place = 0; place < places; ++place) {
      CHECK(children[place] <= 2);
      inner[place] += children[place] > 0;
      std::size_t at = place, steps = 0;
      for (; parent[at] != places && steps <= places; ++steps) at = parent[at];
      CHECK(static_cast<double>(steps) <= tree_depth(places) + 1);  // leads to the root
    }
  }
  // In the second tree of an odd number of places (an even one with a common root) one place is inner again.
  const auto twice = std::count(inner.begin() + (is_rooted ? 1 : 0), inner.end(), 2);
  CHECK(twice <= 1);
}

TEST_CASE("what algorithms put on links: every rank sends and receives what the sum needs, no more") {
  const std::int64_t nodes = GENERATE(1, 2, 3, 4), gpus = GENERATE(1, 2, 4);
  if (nodes * gpus == 1) return;
  const auto n = static_cast<double>(nodes * gpus), k = static_cast<double>(gpus),
             many = static_cast<double>(nodes);
  for (const auto& [opcode, algorithm, nics, nvlinks] :
       std::vector<std::tuple<Opcode, CollectiveAlgorithm, double, double>>{
           // Bytes over all NICs and over all NVLinks, in tensors. A tree has 2 (N-1) edges with half of it,
           // up
           // and down; a ring N edges with 2 (n-1)/n.
           {Opcode::all_reduce, ring, 2 * (n - 1) / n * many,
            nodes == 1 ? 2 * (k - 1) : 2 * (n - 1) / n * many * (k - 1)},
           {Opcode::all_reduce, tree, 2 * (many - 1), 2 * many * (k - 1)},
           {Opcode::all_reduce, nvls_tree, 2 * (many - 1), many * (k + 1)},
           {Opcode::all_reduce, collnet_direct, many, 2 * many * (k - 1)},
           {Opcode::broadcast, tree, many - 1, (k - 1) + (many - 1) * (k - 1)},
           {Opcode::all_gather, pat, many - 1, 0},
           {Opcode::all_to_all, hierarchical, (many - 1) * k, many * (k - 1)}}) {
    const Cluster cluster = cluster_of(nodes, gpus, algorithm);
    const Topology topology(cluster);
    const TunedCollective tuned = tuned_collective(topology, cluster, opcode, all_devices(cluster), 1e9);
    if (tuned.choice.algorithm != algorithm) continue;  // not over these places
    CAPTURE(to_string(algorithm), static_cast<int>(opcode), nodes, gpus);
    const std::map<std::string, double> load = loads_of_flows(topology, tuned.flows);
    const double crossing = nodes > 1 ? nics : 0;
    for (const char* direction : {".tx", ".rx"}) {
      double sum = 0;
      for (const auto& [link, share] : load)
        if (link.find("nic") != std::string::npos && link.ends_with(direction)) sum += share;
      CHECK(sum == Approx(crossing).margin(1e-12));
    }
    CHECK(load_of(load, "nvlink_tx") == Approx(nvlinks).margin(1e-12));
    CHECK(load_of(load, "nvlink_rx") == Approx(nvlinks).margin(1e-12));
  }
}

TEST_CASE("a token that goes to several experts of a node crosses to it once") {
  CHECK(crossing_share(16, 0, 0) == 1);
  // 8 experts anywhere on 2 nodes: 2 (1 - 1/256) different nodes, of 8 copies.
  CHECK(crossing_share(2, 8, 0) == Approx(2 * (1 - 1.0 / 256) / 8));
  // DeepSeek-V3: 8 experts on at most 4 of 16 nodes.
  CHECK(crossing_share(16, 8, 4) == Approx(0.5));
  Cluster cluster = cluster_of(4, 4, hierarchical);
  const Topology topology(cluster);
  const auto nic = [&] {
    return loads_of_flows(
               topology,
               tuned_collective(topology, cluster, Opcode::all_to_all, all_devices(cluster), 1).flows)
        .at("node0.nic0.tx");
  };
  CHECK(nic() == Approx(0.75));
  cluster.collectives.experts_per_token = 8;
  cluster.collectives.nodes_per_token = 2;
  CHECK(nic() == Approx(0.75 / 4));
}

TEST_CASE("nodes of one NVLink domain are like one node") {
  // 2 x 7/8 S over NVLink and 2 x 7 steps; with the switch's sums 9/8 S and one step.
  const auto seconds = [](CollectiveAlgorithm algorithm) {
    Cluster cluster = cluster_of(4, 4, algorithm);
    cluster.wiring.nodes_per_domain = 2;
    const Topology topology(cluster);
    const ExchangeFlows flows = tuned_collective(topology, cluster, Opcode::all_reduce,
                                                 std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, 1e9)
                                    .flows;
    return lockstep_seconds(topology, {&flows, 1}, 1e9);
  };
  CHECK(seconds(ring) == Approx(14e-6 + 1.75e9 / inside));
  CHECK(seconds(nvls) == Approx(1e-6 + 1.125e9 / inside));
}

TEST_CASE("what a group cannot do it does as a ring") {
  const auto algorithm = [](Opcode opcode, CollectiveAlgorithm forced,
                            const std::vector<std::int64_t>& devices) {
    const Cluster cluster = cluster_of(4, 4, forced);
    return tuned_collective(Topology(cluster), cluster, opcode, devices, 1e6).choice.algorithm;
  };
  CHECK(algorithm(Opcode::all_reduce, nvls_tree, {0, 1, 2, 3}) == ring);  // one node
  CHECK(algorithm(Opcode::all_reduce, tree, {0, 1, 4}) == ring);          // two ranks and one
  CHECK(algorithm(Opcode::all_gather, pat, {0, 1, 4, 5}) == ring);        // two ranks on a node
  CHECK(algorithm(Opcode::all_gather, pat, {0, 4, 8}) == pat);
  CHECK(algorithm(Opcode::all_to_all, hierarchical, {0, 4}) == direct);
  CHECK(algorithm(Opcode::all_gather, tree, {0, 4}) == ring);  // no algorithm of all-gathers
  // Nothing forced and nothing known of costs: the faster of ring and two levels.
  CHECK(algorithm(Opcode::all_reduce, automatic, {0, 1, 4, 5}) == two_level);
}

TEST_CASE("a limit of the bus bandwidth, and channels, slow down every flow") {
  Cluster cluster = cluster_of(2, 4, ring);
  cluster.collectives.paces[{ring, CollectiveProtocol::ll}] = {.base_s = 7e-6, .efficiency = 0.5};
  const auto seconds = [&] {
    const Topology topology(cluster);
    const ExchangeFlows flows =
        collective_flows(topology, cluster, Opcode::all_reduce, all_devices(cluster), 1e9);
    return lockstep_seconds(topology, {&flows, 1}, 1e9);
  };
  // 30 us of steps and 7 us; 1.75 GB / 4 rings / 10 GB/s = 43.75 ms, at half the bandwidth 87.5 ms.
  CHECK(seconds() == Approx(37e-6 + 87.5e-3));
  CollectivePace& pace = cluster.collectives.paces.begin()->second;
  pace.two_nodes_bandwidth = 30e9;  // above the 20 GB/s that are left
  CHECK(seconds() == Approx(37e-6 + 87.5e-3));
  pace.two_nodes_bandwidth = 10e9;
  CHECK(seconds() == Approx(37e-6 + 0.175));
  pace.channel_bandwidth = 1e9;
  cluster.collectives.channels = 5;
  CHECK(seconds() == Approx(37e-6 + 0.35));
  // A step takes at least the latency of its link.
  pace = {.network_s = 4e-6};
  CHECK(seconds() == Approx(30e-6 + 43.75e-3));
  pace = {.nvlink_s = 2e-6, .network_s = 6e-6};
  CHECK(seconds() == Approx(2 * (2 * 6e-6 + 5 * 2e-6) + 43.75e-3));
}

}  // namespace simrun
