#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "configs/nvidia_smi_topo.h"
#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

// Two nodes of four GPUs with `more` in the cluster section.
std::string with_cluster(const std::string& more) {
  return R"(simrun: 1
model: {model_type: gpt, num_layers: 8, hidden_size: 1024, num_attention_heads: 16, vocab_size: 51200}
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 16, precision: bf16}
cluster:
  nodes: 2
  gpus_per_node: 4
  gpu: h100_sxm
  inter_node: {bandwidth: 50 GB/s, latency: 5 us}
)" + more;
}

const std::string intra = "  intra_node: {latency: 2 us}\n";

LoadedJob loaded_network(const std::string& more) {
  return load_job_text(with_cluster(more), "job.yaml", with_presets());
}

// The cluster, whose effective config loads again as an equal one.
Cluster cluster(const std::string& more) {
  const LoadedJob first = loaded_network(more);
  CHECK(load_job_text(first.effective_yaml, "job.yaml", LoadOptions{}).job == first.job);
  return first.job.cluster;
}

std::vector<std::string> messages(const std::string& more) {
  std::vector<std::string> messages;
  for (const Diagnostic& problem : problems_of(with_cluster(more))) messages.push_back(problem.message);
  return messages;
}

using Messages = std::vector<std::string>;

// A job on one node of the preset, or with what follows its name.
LoadedJob part_of(const std::string& preset, std::vector<Override> overrides = {}) {
  std::string text = edited(with_cluster(""), "bf16", "fp16");
  text.resize(text.find("cluster:"));
  LoadOptions options = with_presets();
  options.overrides = std::move(overrides);
  return load_job_text(text + "cluster: {nodes: 1, from: " + preset + "}\n", "job.yaml", options);
}

}  // namespace

TEST_CASE("what one flow between nodes gets at most is a key of inter_node, and of no other link") {
  CHECK(cluster(intra).inter_node.flow_bandwidth == 0);
  const auto with_limit = [](const std::string& most) {
    std::string text = with_cluster(intra);
    return text.replace(text.find("latency: 5 us"), 13, "latency: 5 us, flow_bandwidth: " + most);
  };
  const LoadedJob limited = load_job_text(with_limit("42 Gb/s"), "job.yaml", with_presets());
  CHECK(limited.job.cluster.inter_node.flow_bandwidth == Approx(5.25e9));
  CHECK(load_job_text(limited.effective_yaml, "job.yaml", LoadOptions{}).job == limited.job);
  const std::vector<Diagnostic> problems = problems_of(with_limit("0.01 MB/s"));
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message == "a flow gets at most 10000 bytes/s");
  CHECK(problems[0].hint == "from 1 MB/s on, or 0 for no limit.");
  CHECK(messages("  intra_node: {latency: 2 us, flow_bandwidth: 1 GB/s}\n") ==
        Messages{"unknown key 'flow_bandwidth' in 'cluster.intra_node'"});
}

TEST_CASE("a mesh of NVLinks is read pair by pair, and GPUs without a link need a neighbour or PCIe") {
  const Cluster mesh = cluster(
      "  intra_node: {topology: nvlink_mesh, nvlinks: [0-1x2, 1-2, 3-2x2, 0-3], latency: 2 us, relay: "
      "false}\n");
  CHECK(mesh.wiring.topology == IntraNodeTopology::nvlink_mesh);
  CHECK(mesh.wiring.nvlinks == std::vector<NvlinkPair>{{0, 1, 2}, {1, 2, 1}, {2, 3, 2}, {0, 3, 1}});
  CHECK_FALSE(mesh.wiring.relay);
  const auto of = [](const std::string& list) {
    return messages("  intra_node: {topology: nvlink_mesh, latency: 2 us, nvlinks: " + list + "}\n");
  };
  CHECK(of("[0-1, 1-2, 2-3]") ==
        Messages{"GPUs 0 and 3 of a node have neither a link nor a neighbour in common"});
  CHECK(of("[0-1, 1-2, 0-3, 1-0]") == Messages{"0-1 is listed twice"});
  CHECK(of("[0-1, 1-2, 0-4]") == Messages{"0-4x1 names no two GPUs of 4"});
  CHECK(of("[0-1, 2, 1-1, 0-1x0]").size() == 3);
  CHECK(of("[]") ==
        Messages{"'cluster.intra_node.nvlinks' must be a list of pairs of GPUs, not an empty list"});
}

// A DGX-1 has 6 links of 25 GB/s at each GPU: 0-1, 0-2, 0-3x2, 1-2x2, 1-3 and 2-3x2 among the first four.
// A DGX-1 has 6 links of 25 GB/s at each GPU: 0-1, 0-2, 0-3x2, 1-2x2, 1-3 and 2-3x2 among the first four.
TEST_CASE("a job on a part of a preset's node has the links among its first GPUs, each as fast as before") {
  const LoadedJob pair = part_of("aws_p3_16xlarge, gpus_per_node: 2");
  CHECK(pair.job.cluster.wiring.nvlinks == std::vector<NvlinkPair>{{0, 1, 1}});
  CHECK(pair.job.cluster.intra_node.bandwidth == Approx(25e9));  // of one link
  CHECK(pair.job.cluster.wiring.pcie.gpu_switches == std::vector<std::int64_t>{0, 0});
  const LoadedJob four = part_of("dgx1_v100, gpus_per_node: 4, nics_per_node: 2");
  CHECK(four.job.cluster.wiring.nvlinks.size() == 6);
  CHECK(four.job.cluster.intra_node.bandwidth == Approx(125e9));  // GPUs 2 and 3 have five links
  CHECK(four.job.cluster.wiring.pcie.nic_switches == std::vector<std::int64_t>{0, 1});
  const LoadedJob one = part_of("dgx1_v100, gpus_per_node: 1");
  CHECK(one.job.cluster.wiring.topology == IntraNodeTopology::nvswitch);
  for (const LoadedJob* loaded : {&pair, &four, &one})  // what is printed says the same
    CHECK(load_job_text(loaded->effective_yaml, "job.yaml", LoadOptions{}).job.cluster ==
          loaded->job.cluster);
  CHECK(part_of("dgx1_v100, gpus_per_node: 8").job.cluster.wiring.nvlinks.size() == 16);
}

TEST_CASE("what a job itself says of its part of a node stands, wherever it says it") {
  const std::vector<Override> fewer{{"cluster.gpus_per_node", "2"}};
  const std::vector<Override> slower{{"cluster.intra_node.bandwidth", "30 GB/s"}};
  const auto bandwidth = [](const LoadedJob& loaded) { return loaded.job.cluster.intra_node.bandwidth; };
  CHECK(bandwidth(part_of("dgx1_v100", fewer)) == Approx(25e9));
  CHECK(bandwidth(part_of("dgx1_v100, gpus_per_node: 2, intra_node: {bandwidth: 30 GB/s}")) == Approx(30e9));
  CHECK(bandwidth(part_of("dgx1_v100, gpus_per_node: 2", slower)) == Approx(30e9));
  CHECK(bandwidth(part_of("dgx1_v100, intra_node: {bandwidth: 30 GB/s}", fewer)) == Approx(30e9));
  // Wrong links and switches of its own beside the preset's GPUs are errors.
  CHECK_THROWS_WITH(part_of("dgx1_v100, intra_node: {nvlinks: [0-1, 0-9]}"),
                    Contains("0-9x1 names no two GPUs"));
  CHECK_THROWS_WITH(part_of("dgx1_v100, pcie: {gpu_switches: [0, 0, 1, 1, 2, 2, 3, 3, 3]}"),
                    Contains("gpu_switches has 9 entries for 8 GPUs"));
}

TEST_CASE("GPUs of a part of a node that have no link among them are on PCIe, if the node has it") {
  const fs::path folder = fs::temp_directory_path() / "simrun_part_of_node";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto node = [&](const std::string& pcie) {
    std::ofstream(folder / "bridges.yaml")
        << "from: pcie_8xt4\ngpus_per_node: 4\ngpu: v100_sxm2_16gb\nnodes: 1\nintra_node:\n  topology: "
           "nvlink_mesh\n"
           "  nvlinks: [0-2, 1-3]\n  bandwidth: 50 GB/s\n  latency: 2 us\n" +
               pcie;
    return part_of((folder / "bridges.yaml").string() + ", gpus_per_node: 2, nics_per_node: 2");
  };
  const LoadedJob pair = node("pcie: {bandwidth: 12 GB/s, latency: 6 us, gpu_switches: [0, 0, 1, 1]}\n");
  CHECK(pair.job.cluster.wiring.topology == IntraNodeTopology::pcie);
  CHECK(pair.job.cluster.intra_node.bandwidth == Approx(12e9));
  CHECK(load_job_text(pair.effective_yaml, "job.yaml", LoadOptions{}).job.cluster == pair.job.cluster);
  fs::remove_all(folder);
}

TEST_CASE("a PCIe tree names the switch of each GPU and NIC and the socket of each switch") {
  const std::string tree =
      "  nics_per_node: 2\n  intra_node: {topology: pcie, bandwidth: 16 GB/s, latency: 5 us, efficiency: "
      "0.8}\n"
      "  gpu_direct: false\n  pcie: {gpu_switches: [0, 0, 1, 1], nic_switches: [0, 1], switch_sockets: [0, "
      "1],\n"
      "         socket_bandwidth: 10 GB/s}\n";
  const Cluster read = cluster(tree);
  CHECK(read.wiring.pcie.gpu_switches == std::vector<std::int64_t>{0, 0, 1, 1});
  CHECK(read.wiring.pcie.link == read.intra_node);  // the GPUs' own
  CHECK(read.wiring.pcie.link.bandwidth == 16e9);
  CHECK(read.wiring.pcie.socket_link.bandwidth == 10e9);
  CHECK_FALSE(read.wiring.gpu_direct);
  CHECK(messages(edited(tree, "[0, 1], switch", "[0, 2], switch")) ==
        Messages{"pcie.nic_switches names switch 2, and switch_sockets has 2"});
  CHECK(messages(edited(tree, "[0, 0, 1, 1]", "[0, 0, 1]")) ==
        Messages{"pcie.gpu_switches has 3 entries for 4 GPUs"});
  CHECK(messages(edited(tree, ",\n         socket_bandwidth: 10 GB/s", "")) ==
        Messages{"missing required key 'socket_bandwidth' in 'cluster.pcie'"});
  CHECK(messages(intra + "  gpu_direct: false\n") ==
        Messages{"without gpu_direct traffic takes the PCIe tree, which is not described"});
  CHECK(messages("  intra_node: {topology: pcie, bandwidth: 16 GB/s, latency: 5 us}\n") ==
        Messages{"topology pcie needs a pcie section"});
}

TEST_CASE("fabrics of three levels, planes and tori are read, and load again as equal clusters") {
  const Fabric tree =
      cluster(intra +
              "  fabric: {topology: fat_tree, nodes_per_leaf: 1, leaves_per_pod: 2, spines: 2, cores: 4,\n"
              "           core_oversubscription: 3, core_latency: 1 us, routing: static, planes: 2}\n")
          .fabric;
  CHECK(tree.topology == FabricTopology::fat_tree);
  CHECK(tree.cores == 4);
  CHECK(tree.core_oversubscription == 3);
  CHECK(tree.routing == PathChoice::static_by_destination);
  CHECK(tree.planes == 2);
  const Fabric rails = cluster(intra +
                               "  fabric: {topology: leaf_spine, nodes_per_leaf: 1, spines: 2,\n"
                               "           rail_only: true, routing: spray}\n")
                           .fabric;
  CHECK(rails.pxn);  // follows from rail_only
  const Fabric torus =
      cluster(intra + "  fabric: {topology: torus, torus: [4, 2], hop_latency: 1 us}\n").fabric;
  CHECK(torus.torus == std::vector<std::int64_t>{4, 2});
  CHECK(torus.torus_wraps);
  const Fabric pods = cluster(intra +
                              "  fabric: {topology: dragonfly_plus, nodes_per_leaf: 1,\n"
                              "           leaves_per_pod: 1, spines: 2}\n")
                          .fabric;
  CHECK(pods.topology == FabricTopology::dragonfly_plus);
  CHECK(cluster("  intra_node: {latency: 2 us, nodes_per_domain: 2}\n").wiring.nodes_per_domain == 2);
}

TEST_CASE("a fabric that cannot be is refused, each with its reason") {
  const auto of = [](const std::string& fabric) { return messages(intra + "  fabric: {" + fabric + "}\n"); };
  CHECK(of("topology: torus, torus: [3, 2]") ==
        Messages{"a torus of 3 x 2 is 6 GPUs, and 2 nodes x 4 are 8"});
  CHECK(of("topology: torus") == Messages{"missing required key 'torus' in 'cluster.fabric'"});
  CHECK(of("topology: fat_tree, nodes_per_leaf: 1, leaves_per_pod: 2, spines: 4, cores: 6") ==
        Messages{"6 core switches do not divide over the 4 spines of a pod"});
  CHECK(of("topology: fat_tree, nodes_per_leaf: 1, spines: 4") ==
        Messages{"missing required key 'leaves_per_pod' in 'cluster.fabric'",
                 "missing required key 'cores' in 'cluster.fabric'"});
  CHECK(of("topology: leaf_spine, nodes_per_leaf: 1, spines: 2, rail_only: true, rail_optimized: false") ==
        Messages{"rail_only without rail_optimized: there are no rails"});
  CHECK(of("topology: leaf_spine, nodes_per_leaf: 1, spines: 2, rail_only: true, pxn: false") ==
        Messages{"with rail_only nothing reaches another rail without pxn"});
  CHECK(of("topology: leaf_spine, nodes_per_leaf: 1, spines: 2, routing: adaptive") ==
        Messages{"'cluster.fabric.routing' cannot be 'adaptive'"});
  CHECK(messages("  nics_per_node: 6\n" + intra) == Messages{"nics_per_node 6 do not divide over 4 GPUs"});
  CHECK(cluster("  nics_per_node: 8\n" + intra).nics_per_node == 8);
}

TEST_CASE("rank_order and rank_map say where ranks are") {
  const auto with_parallelism = [](const std::string& keys) {
    return with_cluster(intra) +
           "parallelism: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, " + keys + "}\n";
  };
  const auto only_problem = [&](const std::string& keys) {
    const std::vector<Diagnostic> problems = problems_of(with_parallelism(keys));
    REQUIRE(problems.size() == 1);
    return problems[0].message;
  };
  CHECK(load(with_parallelism("")).parallelism.rank_order == "tp-cp-ep-dp-pp");
  CHECK(load(with_parallelism("rank_order: tp-pp-cp-dp")).parallelism.rank_order == "tp-pp-cp-dp");
  const LoadedJob mapped =
      load_job_text(with_parallelism("rank_map: [7, 6, 5, 4, 3, 2, 1, 0]"), "job.yaml", with_presets());
  CHECK(mapped.job.parallelism.rank_map.front() == 7);
  CHECK(load_job_text(mapped.effective_yaml, "job.yaml", LoadOptions{}).job == mapped.job);
  CHECK(only_problem("rank_order: tp-dp-pp") == "'parallelism.rank_order' cannot be 'tp-dp-pp'");
  CHECK(only_problem("rank_order: tp-tp-cp-dp-pp") == "'parallelism.rank_order' cannot be 'tp-tp-cp-dp-pp'");
  CHECK(only_problem("rank_map: [0, 1, 2]") == "rank_map has 3 entries for 8 ranks");
  CHECK(only_problem("rank_map: [0, 1, 2, 3, 4, 5, 6, 6]") == "rank 6 is on devices 6 and 7");
  CHECK(only_problem("rank_map: [0, 1, 2, 3, 4, 5, 6, 8]") == "there is no rank 8 of 8");
  CHECK(only_problem("rank_map: [0, 1, 2, 3, 4, 5, 6, 7], rank_order: tp-cp-pp-dp") ==
        "rank_map and rank_order both say where ranks are");
}
