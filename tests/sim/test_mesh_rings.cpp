#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "sim/collective_all_to_all.h"
#include "sim/collective_ring.h"
#include "sim/mesh_rings.h"
#include "tests/sim/network_clusters.h"

// Collectives inside a node whose GPUs are linked pair by pair.
namespace simrun {
namespace {

using Gpus = std::vector<std::int64_t>;

// What a phase puts on each link, as a share of the bytes.
std::map<LinkIndex, double> on_links(const FlowPhase& phase) {
  std::map<LinkIndex, double> shares;
  for (const SharedFlow& flow : phase.flows)
    for (const LinkIndex link : flow.route.links()) shares[link] += flow.share;
  return shares;
}

double slowest_s_per_byte(const Topology& topology, const FlowPhase& phase) {
  double most = 0;
  for (const auto& [link, share] : on_links(phase)) most = std::max(most, share / topology.bandwidth(link));
  return most;
}

Gpus first_gpus(std::int64_t count) {
  Gpus gpus(static_cast<std::size_t>(count));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

}  // namespace

TEST_CASE("eight GPUs of a DGX-1 with six links each have six rings, and an all-reduce uses every link") {
  const Topology topology(test::cube_mesh_cluster());
  const std::vector<Gpus> rings = rings_inside(topology, first_gpus(8));
  CHECK(rings.size() == 6);
  for (const Gpus& ring : rings) {
    CHECK(ring.front() == 0);
    CHECK(std::set<std::int64_t>(ring.begin(), ring.end()).size() == 8);
    for (std::size_t i = 0; i < 8; ++i) CHECK(topology.route(ring[i], ring[(i + 1) % 8]).count() == 1);
  }
  // 2 x 7/8 of the bytes over six links of 25 GB/s.
  const ExchangeFlows flows = ring_flows(topology, Opcode::all_reduce, first_gpus(8), {});
  CHECK(slowest_s_per_byte(topology, flows[0]) == Approx(2 * 7.0 / 8 / 150e9));
}

TEST_CASE("half of a DGX-1 has four rings, two GPUs their links both ways") {
  const Topology topology(test::cube_mesh_cluster());
  CHECK(rings_inside(topology, first_gpus(4)).size() == 4);
  const ExchangeFlows four = ring_flows(topology, Opcode::all_gather, first_gpus(4), {});
  CHECK(slowest_s_per_byte(topology, four[0]) == Approx(3.0 / 4 / 100e9));
  CHECK(rings_inside(topology, Gpus{0, 3}) == std::vector<Gpus>{{0, 3}});
}

TEST_CASE("GPUs that links do not join in a ring, and those on a switch, have one in their order") {
  // 0-1 and 1-5 are linked, 0-5 are not.
  CHECK(rings_inside(Topology(test::cube_mesh_cluster()), Gpus{0, 1, 5}) == std::vector<Gpus>{{0, 1, 5}});
  CHECK(rings_inside(Topology(test::plain_cluster(1, 8)), first_gpus(8)) == std::vector<Gpus>{first_gpus(8)});
}

TEST_CASE("a broadcast returns to its root over no ring") {
  const Topology topology(test::cube_mesh_cluster());
  const ExchangeFlows flows = ring_flows(topology, Opcode::broadcast, first_gpus(8), {});
  CHECK(flows[0].flows.size() == 6 * 7);
  for (const SharedFlow& flow : flows[0].flows)
    CHECK_FALSE(topology.name(flow.route.link.back()).ends_with("nvlink_gpu0"));
}

TEST_CASE("an all-to-all without a switch goes from every GPU to every other one") {
  const Topology topology(test::cube_mesh_cluster());
  const ExchangeFlows flows = direct_all_to_all_flows(topology, first_gpus(8), {});
  CHECK(flows[0].flows.size() == 8 * 7);
  double sent = 0;
  for (const SharedFlow& flow : flows[0].flows) {
    CHECK(flow.share == Approx(1.0 / 8));
    sent += flow.share;
  }
  CHECK(sent == Approx(7));
}

}  // namespace simrun
