#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "sim/describe_topology.h"
#include "sim/simulate.h"
#include "tests/jobs.h"
#include "tests/sim/network_clusters.h"

namespace simrun {
namespace {

std::vector<std::string> cluster_presets() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/configs/clusters"))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

Cluster preset(const std::string& name, std::int64_t nodes) {
  return load_cluster(name, {{{"cluster.nodes", std::to_string(nodes)}}, {SIMRUN_SOURCE_DIR "/configs"}});
}

// tp 4, pp 2, dp 2 on as many nodes as have 16 GPUs, two at least.
Job small_job_on(const std::string& cluster) {
  const std::int64_t gpus = preset(cluster, 2).gpus_per_node;
  const std::int64_t nodes = std::max<std::int64_t>(16 / gpus, 2);
  return job_from(small_gpt(4, 4, 2, 2), {{"cluster", "{from: " + cluster + "}"},
                                          {"cluster.nodes", std::to_string(nodes)},
                                          {"training.precision", "fp16"},
                                          {"training.global_batch_size", "64"}});
}

}  // namespace

// The fast engine prices exchanges of one instruction that share links as if they did so to their end, which
// SimGrid sees to be a little less: 1.5 % on Frontier, where two GPUs share a NIC and are done with it at
// different times.
TEST_CASE("a small job runs on every cluster preset, hardly faster with contention than without", "[long]") {
  const std::vector<std::string> names = cluster_presets();
  CHECK(names.size() >= 17);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Plan plan = compile(small_job_on(name));
    REQUIRE(lint(plan) == std::vector<std::string>{});
    const Timeline fast = simulate(plan, {Detail::totals, EngineChoice::fast});
    const Timeline simgrid = simulate(plan, {Detail::totals, EngineChoice::simgrid});
    CHECK(fast.step > 0);
    CHECK(simgrid.step >= fast.step - fast.step / (name == "frontier" ? 50 : 100));
  }
}

TEST_CASE("bisections by pencil") {
  using test::plain_cluster;
  Cluster cluster = plain_cluster(8, 2);
  CHECK(bisection_bandwidth(cluster) == Approx(4 * 2 * 10e9));  // four nodes' NICs
  cluster.fabric = {FabricTopology::leaf_spine, true, 2, 4, 3, 0};
  CHECK(bisection_bandwidth(cluster) == Approx(4 * 2 * 10e9 / 3));
  cluster.fabric.nodes_per_leaf = 8;  // one leaf per rail: the spines are not needed
  CHECK(bisection_bandwidth(cluster) == Approx(4 * 2 * 10e9));
  cluster.fabric = {FabricTopology::fat_tree, false, 1, 2, 2, 0};
  cluster.fabric.leaves_per_pod = 2;
  cluster.fabric.cores = 2;
  cluster.fabric.core_oversubscription = 5;
  CHECK(bisection_bandwidth(cluster) == Approx(4 * 2 * 10e9 / 2 / 5));
  // Four pods: two of a pod's three equal shares of 2 leaves x 20 / 2 GB/s cross.
  cluster.fabric.topology = FabricTopology::dragonfly_plus;
  cluster.fabric.core_oversubscription = 1;
  CHECK(bisection_bandwidth(cluster) == Approx(2 * (2.0 / 3) * 2 * 20e9 / 2));
  cluster = plain_cluster(16, 4);
  cluster.fabric.topology = FabricTopology::torus;
  cluster.fabric.torus = {4, 4, 4};
  CHECK(bisection_bandwidth(cluster) == Approx(2 * 16 * 10e9));  // 16 rings, cut twice
}

TEST_CASE("published clusters: two planes, eight planes, a 72-GPU domain, 15:1 between pods") {
  Cluster hashed = preset("alibaba_hpn", 256);
  CHECK(Topology(hashed).name(Topology(hashed).route(0, 8).link.front()) == "node0.nic0.tx");
  hashed.fabric.routing = PathChoice::ecmp;
  const Topology hpn(hashed);
  CHECK(hpn.name(hpn.route(0, 8).link.front()).find("plane") != std::string::npos);
  CHECK(hpn.route(0, 8).count() == 2);     // one segment
  CHECK(hpn.route(0, 1024).count() == 4);  // another
  // Half the nodes are 15 segments of 128: 15 x 8 rails x 2 planes x 24 Tb/s / 15 leave their pod.
  CHECK(bisection_bandwidth(preset("alibaba_hpn", 3840)) ==
        Approx(15.0 * 8 * 2 * (128 * 25e9 * 0.91 / 1.067) / 15));
  const Topology deepseek(preset("deepseek_h800", 256));
  for (std::int64_t to = 8; to < 16; ++to)
    CHECK(deepseek.name(deepseek.route(0, to).link.back()) == "node1.nic" + std::to_string(to % 8) + ".rx");
  CHECK(deepseek.route(0, 8).count() == 2);
  CHECK(deepseek.route(0, 9).count() == 4);
  const Topology nvl72(preset("gb200_nvl72", 36));
  CHECK(nvl72.domain_of(71) == nvl72.domain_of(0));
  CHECK(nvl72.route(0, 71).count() == 2);
  CHECK(Topology(preset("gb200_nvl36", 18)).domain_of(36) == 1);
  // 3,072 GPUs of 50 GB/s x 0.91 leave a pod at a seventh of their rate: two of four pods.
  CHECK(bisection_bandwidth(preset("meta_h100_roce", 1536)) == Approx(2 * 3072 * 50e9 * 0.91 / 7));
}

TEST_CASE("what --print-topology says of a DGX H100 cluster counts every link") {
  const TopologyReport report = describe_topology(preset("dgx_h100", 64));
  std::int64_t links = 0;
  for (const TopologyReport::Links& of : report.links) links += of.count;
  CHECK(links == Topology(preset("dgx_h100", 64)).links());
  CHECK(report.bisection == Approx(32 * 8 * 50e9 * 0.91));
  CHECK(report.unlimited_bisection == report.bisection);
  std::int64_t pairs = 0;
  for (const TopologyReport::Routes& of : report.routes) pairs += of.pairs;
  CHECK(pairs == 8 * (64 * 8 - 1));
  REQUIRE(report.routes.size() == 5);
  CHECK(report.routes[0].between == "same node");
  CHECK(report.routes[0].bandwidth == Approx(450e9 * 0.84));
  CHECK(report.routes[1].between == "same leaf, same rail");
}

}  // namespace simrun
