#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

// The small job on two nodes of dgx_h100 with `more` in its cluster section.
std::string with_cluster(const std::string& more) { return edited("nodes: 1}", "nodes: 2, " + more + "}"); }

Cluster cluster(const std::string& more) { return load(with_cluster(more)).cluster; }

std::string only_message(const std::string& more) {
  const std::vector<Diagnostic> problems = problems_of(with_cluster(more));
  CAPTURE(render(problems));
  REQUIRE(problems.size() == 1);
  return problems[0].message;
}

std::string only_hint(const std::string& more) { return problems_of(with_cluster(more)).at(0).hint; }

// A whole fabric, so that the preset's is out of the way.
const std::string custom = R"(simrun: 1
model: {model_type: gpt, num_layers: 8, hidden_size: 1024, num_attention_heads: 16, vocab_size: 51200}
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 16, precision: bf16}
cluster:
  nodes: 4
  gpus_per_node: 4
  gpu: h100_sxm
  intra_node: {latency: 2 us}
  inter_node: {bandwidth: 50 GB/s, latency: 5 us}
)";

TEST_CASE("another cluster has as many nodes and GPUs per node, if it has so many") {
  const auto sizes = [](const std::string& cluster) {
    LoadOptions options = with_presets();
    options.overrides = {{"cluster.from", cluster}, {"parallelism.tensor_model_parallel_size", "2"}};
    std::string text = small_job;
    text.replace(text.find("nodes: 1"), 8, "nodes: 2, gpus_per_node: 6");
    text.replace(text.find("num_attention_heads: 16"), 23, "num_attention_heads: 12");
    text.replace(text.find("hidden_size: 1024"), 17, "hidden_size: 1536");
    text.replace(text.find("global_batch_size: 16"), 21, "global_batch_size: 12");
    const Cluster of = load_job_text(text, "job.yaml", options).job.cluster;
    return std::pair(of.nodes, of.gpus_per_node);
  };
  CHECK(sizes("dgx_a100") == std::pair<std::int64_t, std::int64_t>(2, 6));
  CHECK(sizes("gb200_nvl72") == std::pair<std::int64_t, std::int64_t>(2, 4));  // no node of it has 6
}

}  // namespace

TEST_CASE("without NICs and fabric: a NIC per GPU, and only NICs limit traffic") {
  const LoadedJob loaded = load_job_text(custom, "job.yaml", with_presets());
  CHECK(loaded.job.cluster.nics_per_node == 4);
  CHECK(loaded.job.cluster.fabric == Fabric{});
  CHECK(loaded.effective_yaml.find("nics_per_node: 4") != std::string::npos);
  CHECK(loaded.effective_yaml.find("topology: non_blocking") != std::string::npos);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}

TEST_CASE("the DGX presets have the switches of NVIDIA's SuperPOD, not oversubscribed") {
  const Fabric h100{FabricTopology::leaf_spine, true, 32, 1, 1, 0};
  const Fabric a100{FabricTopology::leaf_spine, true, 20, 1, 1, 0};
  CHECK(load(small_job).cluster.fabric == h100);
  CHECK(load(edited("dgx_h100", "dgx_a100")).cluster.fabric == a100);
  CHECK(load(small_job).cluster.nics_per_node == 8);
}

TEST_CASE("every key of the fabric is read, and the effective config loads again as an equal job") {
  const LoadedJob loaded = load_job_text(
      custom +
          "  nics_per_node: 2\n"
          "  fabric: {topology: leaf_spine, rail_optimized: false, nodes_per_leaf: 2, spines: 3,\n"
          "           oversubscription: 2.5, spine_latency: 2 us}\n",
      "job.yaml", with_presets());
  const Fabric expected{FabricTopology::leaf_spine, false, 2, 3, 2.5, 2e-6};
  CHECK(loaded.job.cluster.fabric == expected);
  CHECK(loaded.job.cluster.nics_per_node == 2);
  const LoadedJob again = load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{});
  CHECK(again.job == loaded.job);
  CHECK(again.effective_yaml.find("oversubscription: 2.5") != std::string::npos);
}

TEST_CASE("a preset's fabric is overridden key by key, and left out as non_blocking") {
  CHECK(cluster("fabric: {oversubscription: 4}").fabric.oversubscription == 4);
  CHECK(cluster("fabric: {oversubscription: 4}").fabric.nodes_per_leaf == 32);
  CHECK(cluster("fabric: {topology: non_blocking}").fabric == Fabric{});
  const LoadedJob loaded =
      load_job_text(with_cluster("fabric: {topology: non_blocking}"), "job.yaml", with_presets());
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}

TEST_CASE("NICs that no GPUs share equally are refused with the numbers that do") {
  CHECK(only_message("nics_per_node: 3") == "8 GPUs do not divide over nics_per_node 3");
  CHECK(only_hint("nics_per_node: 3") == "1, 2, 4 and 8 do.");
  CHECK(only_message("nics_per_node: 12") == "nics_per_node 12 do not divide over 8 GPUs");
  CHECK(cluster("nics_per_node: 16").nics_per_node == 16);
  CHECK(only_message("nics_per_node: 0") == "'cluster.nics_per_node': must be at least 1, not 0");
  CHECK(cluster("nics_per_node: 4").nics_per_node == 4);
}

TEST_CASE("a wrong fabric is refused, all that is wrong in one run") {
  CHECK(only_message("fabric: leaf_spine") == "'cluster.fabric' must be a map of keys, not 'leaf_spine'");
  CHECK(only_message("fabric: {topology: leaf-spine}") == "'cluster.fabric.topology' cannot be 'leaf-spine'");
  CHECK(only_hint("fabric: {topology: leaf-spine}") == "did you mean 'leaf_spine'?");
  CHECK(only_message("fabric: {topology: dragonfly}") ==
        "'dragonfly' for 'cluster.fabric.topology' is not supported yet");
  CHECK(only_message("fabric: {oversubscription: 0.5}") ==
        "'cluster.fabric.oversubscription': must be from 1 to 1000, not '0.5'");
  CHECK(only_message("fabric: {spine_latency: 1}") ==
        "'cluster.fabric.spine_latency': needs a unit: 1 of what?");
  CHECK(only_message("fabric: {rail_optimised: true}") == "unknown key 'rail_optimised' in 'cluster.fabric'");
  CHECK(only_hint("fabric: {rail_optimised: true}") == "did you mean 'rail_optimized'?");
  CHECK(only_hint("spines: 4") == "it belongs in 'cluster.fabric'.");
  CHECK(problems_of(with_cluster("fabric: {topology: mesh, nodes_per_leaf: 0, spines: 20000}")).size() == 3);
}

TEST_CASE("a leaf-spine fabric says how many nodes and spines, and a fabric its topology") {
  const auto messages = [](const std::string& fabric) {
    std::vector<std::string> messages_of;
    for (const Diagnostic& problem : problems_of(custom + "  fabric: " + fabric + "\n"))
      messages_of.push_back(problem.message);
    return messages_of;
  };
  CHECK(messages("{topology: leaf_spine}") ==
        std::vector<std::string>{"missing required key 'nodes_per_leaf' in 'cluster.fabric'",
                                 "missing required key 'spines' in 'cluster.fabric'"});
  CHECK(messages("{nodes_per_leaf: 4, spines: 4}") ==
        std::vector<std::string>{"missing required key 'topology' in 'cluster.fabric'"});
}

TEST_CASE("more links than can be numbered are refused") {
  const std::string huge = edited(custom, "nodes: 4", "nodes: 1000000") +
                           "  fabric: {topology: leaf_spine, nodes_per_leaf: 1, spines: 1000}\n";
  const std::vector<Diagnostic> problems = problems_of(huge);
  REQUIRE_FALSE(problems.empty());
  CHECK(render(problems).find("4000000 leaves x 1000 spines have more links than simrun's 1000000000") !=
        std::string::npos);
}
