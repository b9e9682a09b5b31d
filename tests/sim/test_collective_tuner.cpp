#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "configs/load_job.h"
#include "sim/collective_table.h"
#include "sim/exchange_costs.h"
#include "sim/network.h"
#include "sim/tuned_flows.h"
#include "sim/worker.h"

namespace simrun {
namespace {

using enum CollectiveAlgorithm;

Cluster nccl_cluster(const std::string& name, std::int64_t nodes) {
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  options.overrides = {{"cluster.nodes", std::to_string(nodes)}, {"cluster.collectives.from", "nccl"}};
  return load_cluster(name, options);
}

std::vector<std::int64_t> first_devices(std::int64_t ranks, std::int64_t stride = 1) {
  std::vector<std::int64_t> devices;
  for (std::int64_t rank = 0; rank < ranks; ++rank) devices.push_back(rank * stride);
  return devices;
}

std::string chosen(const Cluster& cluster, Opcode opcode, const std::vector<std::int64_t>& devices,
                   double bytes) {
  const CollectiveChoice choice = tuned_collective(Topology(cluster), cluster, opcode, devices, bytes).choice;
  return to_string(choice.algorithm) + " " + to_string(choice.protocol);
}

double seconds(const Topology& topology, const ExchangeFlows& flows, double bytes) {
  return lockstep_seconds(topology, {&flows, 1}, bytes);
}

}  // namespace

TEST_CASE("the tuner takes on eight GPUs of a node what NCCL was seen to take") {
  Cluster cluster = nccl_cluster("dgx_h100", 1);
  const std::vector<std::int64_t> eight = first_devices(8);
  // "Ring with the LL protocol up to a 1MiB payload and NVLS with SIMPLE from 2MiB up" on 8 H200 (Bekman,
  // ml-engineering, network/benchmarks/results/all-reduce-8xH200.md).
  for (const double bytes : {0x1p15, 0x1p18, 0x1p20})
    CHECK(chosen(cluster, Opcode::all_reduce, eight, bytes) == "ring ll");
  for (const double bytes : {0x1p21, 0x1p24, 0x1p30, 0x1p34})
    CHECK(chosen(cluster, Opcode::all_reduce, eight, bytes) == "nvls simple");
  // "NVLS implements all-reduce and nothing else"; without it "RING proto SIMPLE" (network/README.md, SHARP).
  CHECK(chosen(cluster, Opcode::all_gather, eight, 0x1p34) == "ring simple");
  CHECK(chosen(cluster, Opcode::reduce_scatter, eight, 0x1p34) == "ring simple");
  cluster.intra_node.sharp = false;
  CHECK(chosen(cluster, Opcode::all_reduce, eight, 0x1p34) == "ring simple");
}

TEST_CASE("over nodes the tuner takes trees, until a ring of few nodes is as fast and has no more steps") {
  const Cluster h100 = nccl_cluster("dgx_h100", 4);
  CHECK(chosen(h100, Opcode::all_reduce, first_devices(32), 0x1p12) == "tree ll");
  CHECK(chosen(h100, Opcode::all_reduce, first_devices(32), 0x1p26) == "nvls_tree simple");
  CHECK(chosen(h100, Opcode::all_reduce, first_devices(32), 0x1p36) == "ring simple");  // 31/32 of the bytes
  CHECK(chosen(h100, Opcode::all_gather, first_devices(4, 8), 0x1p12) == "ring ll");
  const Cluster many = nccl_cluster("dgx_h100", 64);
  CHECK(chosen(many, Opcode::all_gather, first_devices(64, 8), 0x1p24) == "pat simple");
  CHECK(chosen(many, Opcode::all_to_all, first_devices(64), 0x1p24) == "direct simple");
  CHECK(chosen(many, Opcode::broadcast, first_devices(8), 0x1p30) == "ring simple");
}

TEST_CASE("the tuner's choice is the fastest of the ways, and forcing it changes nothing") {
  const std::int64_t nodes = GENERATE(1, 2, 4), gpus = GENERATE(1, 2, 8);
  if (nodes * gpus == 1) return;
  Cluster cluster = nccl_cluster(GENERATE("dgx_h100", "dgx_a100"), 4);
  const Topology topology(cluster);
  std::vector<std::int64_t> devices;
  for (std::int64_t d = 0; d < nodes * 8; ++d)
    if (d % 8 < gpus) devices.push_back(d);
  for (const Opcode opcode : {Opcode::all_reduce, Opcode::all_gather, Opcode::broadcast, Opcode::all_to_all})
    for (const double bytes : {1.0, 0x1p16, 0x1p20, 0x1p24, 0x1p34}) {
      CAPTURE(nodes, gpus, static_cast<int>(opcode), bytes);
      const TunedCollective tuned = tuned_collective(topology, cluster, opcode, devices, bytes);
      const double least_s = seconds(topology, tuned.flows, bytes);
      std::set<CollectiveChoice> ways;
      for (const TunedCollective& way : collective_ways(topology, cluster, opcode, devices)) {
        CHECK(seconds(topology, way.flows, bytes) >= least_s);
        CHECK(ways.insert(way.choice).second);
        CHECK(seconds(topology, flows_of_way(topology, cluster, opcode, devices, way.choice), bytes) ==
              seconds(topology, way.flows, bytes));
        Cluster forced = cluster;
        forced.collectives.forced = way.choice;
        CHECK(tuned_collective(topology, forced, opcode, devices, bytes).choice == way.choice);
      }
      CHECK(ways.count(tuned.choice) == 1);
    }
}

TEST_CASE("what is kept of a group's ways gives every exchange of it the flows that it has alone") {
  const Cluster cluster = nccl_cluster("dgx_h100", 4);
  const Topology topology(cluster);
  TunedFlows tuned(topology, cluster);
  for (const std::int64_t stride : {1, 4, 8})
    for (const Opcode opcode : {Opcode::all_reduce, Opcode::all_gather, Opcode::all_to_all})
      for (const double bytes : {1.0, 0x1p16, 0x1p20, 0x1p34, 0x1p20}) {
        CAPTURE(stride, static_cast<int>(opcode), bytes);
        const std::vector<std::int64_t> devices = first_devices(4, stride);
        const ExchangeFlows kept =
            flows_of_way(topology, cluster, opcode, devices, tuned.fastest(opcode, devices, bytes));
        const ExchangeFlows alone = collective_flows(topology, cluster, opcode, devices, bytes);
        REQUIRE(kept.size() == alone.size());
        for (std::size_t phase = 0; phase < kept.size(); ++phase) {
          CHECK(kept[phase].latency_s == alone[phase].latency_s);
          REQUIRE(kept[phase].flows.size() == alone[phase].flows.size());
          for (std::size_t f = 0; f < kept[phase].flows.size(); ++f) {
            CHECK(kept[phase].flows[f].share == alone[phase].flows[f].share);
            CHECK(kept[phase].flows[f].route.link == alone[phase].flows[f].route.link);
          }
        }
      }
}

TEST_CASE("collectives at once on shared NICs end between the slowest alone and all in turn") {
  // Four groups of two nodes whose eight GPUs share two NICs per node; two on each NIC.
  Cluster cluster = nccl_cluster("dgx_h100", 4);
  cluster.nics_per_node = 2;
  const CollectiveAlgorithm algorithm = GENERATE(ring, tree, collnet_chain);
  cluster.inter_node.sharp = true;
  cluster.collectives = {};
  cluster.collectives.forced.algorithm = algorithm;
  const double bytes = 1e8;
  const Topology topology(cluster);
  std::vector<double> alone;
  std::vector<std::vector<NetworkExchange>> exchanges;
  for (std::int64_t gpu = 0; gpu < 4; ++gpu) {
    std::vector<std::int64_t> devices;
    for (std::int64_t node = 0; node < 4; ++node) devices.push_back(8 * node + gpu);
    const ExchangeFlows flows = collective_flows(topology, cluster, Opcode::all_reduce, devices, bytes);
    alone.push_back(seconds(topology, flows, bytes));
    exchanges.push_back({{flows, bytes}});
  }
  const double together = 1e-12 * std::stod(run_in_worker([&] {
                            LinkMeter meter(topology.links(), {});
                            Network network(topology, exchanges, meter);
                            for (Index e = 0; e < exchanges.size(); ++e) network.post(e, 0, 0, e);
                            Picoseconds last = 0;
                            network.run([&](Index, Picoseconds end) { last = end; });
                            return std::to_string(last);
                          }));
  double in_turn = 0;
  for (const double one : alone) in_turn += one;
  CHECK(together >= *std::max_element(alone.begin(), alone.end()));
  CHECK(together <= in_turn * (1 + 1e-9));
  // All four use the node's first NIC, alike: four times the bytes, the latency once.
  const double latency_s = exchanges[0][0].flows()[0].latency_s;
  CHECK(together == Approx(latency_s + 4 * (alone[0] - latency_s)).epsilon(1e-9));
}

TEST_CASE("a limit of the bus bandwidth is the exchange's, however many of its flows share a link") {
  // Four nodes: each NIC carries four flows of the two trees, the ring's one. Two channels of 36 GB/s are 72
  // GB/s in both, far less than the NICs give.
  Cluster cluster = nccl_cluster("dgx_h100", 4);
  cluster.collectives.channels = 2;
  const double bytes = 0x1p30;
  for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::tree, CollectiveAlgorithm::ring}) {
    const CollectiveChoice way{algorithm, CollectiveProtocol::simple};
    cluster.collectives.paces[way].channel_bandwidth = 36e9;
    const Topology topology(cluster);
    const ExchangeFlows flows = flows_of_way(topology, cluster, Opcode::all_reduce, first_devices(32), way);
    const double seconds = lockstep_seconds(topology, {&flows, 1}, bytes) - flows.front().latency_s;
    CHECK(2 * 31.0 / 32 * bytes / seconds == Approx(72e9).epsilon(1e-6));
  }
}

TEST_CASE("a collective takes the way of its size") {
  const auto seconds_for = [](std::int64_t bytes) {
    const Cluster cluster = nccl_cluster("dgx_h100", 1);
    CollectiveQuery query{cluster, Opcode::all_reduce, {1}, 8, {bytes}};
    return collective_table(query)[0].time_s;
  };
  CHECK(seconds_for(1 << 15) == Approx(6.6e-6 + 14 * 0.6e-6 + 1.75 * 0x1p15 / 141e9).epsilon(1e-6));
  CHECK(seconds_for(1 << 30) == Approx(25e-6 + 1.125 * 0x1p30 / (378e9 * 0.85)).epsilon(1e-6));
}

}  // namespace simrun
