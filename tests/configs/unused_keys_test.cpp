#include <catch2/catch.hpp>

#include "small_job.h"

// A key that means nothing where it stands is refused there; one that a preset wrote is left behind.
namespace simrun::test {
namespace {

std::string told(const std::string& text, std::vector<Override> overrides = {}) {
  LoadOptions options = with_presets();
  options.overrides = std::move(overrides);
  return refusal(text, options);
}

std::string on_cluster(const std::string& keys) {
  return edited("{from: dgx_h100, nodes: 1}", "{from: dgx_h100, nodes: 2, " + keys + "}");
}

}  // namespace

TEST_CASE("NVLinks by pairs mean nothing to GPUs on a switch") {
  CHECK(told(on_cluster("intra_node: {relay: true}")) ==
        "job.yaml:16:50: error: 'cluster.intra_node.relay' means nothing with topology: nvswitch\n"
        "  hint: it belongs to topology: nvlink_mesh.\n"
        "1 error; nothing was run.\n");
  CHECK(told(small_job, {{"cluster.intra_node.gpu_nvlinks", "4"}}) ==
        "--set cluster.intra_node.gpu_nvlinks=4: error: 'cluster.intra_node.gpu_nvlinks' means nothing with "
        "topology: nvswitch\n"
        "  hint: it belongs to topology: nvlink_mesh.\n"
        "1 error; nothing was run.\n");
  CHECK(told(on_cluster("intra_node: {nvlinks: [0-1]}")).find("nvlinks' means nothing") != std::string::npos);
  CHECK(told(edited(edited("bf16", "fp16"), "{from: dgx_h100, nodes: 1}",
                    "{from: dgx1_v100, nodes: 1, intra_node: {nodes_per_domain: 2}}"))
            .find("'cluster.intra_node.nodes_per_domain' means nothing with topology: nvlink_mesh") !=
        std::string::npos);
}

TEST_CASE("keys of another fabric than the one that is written are refused") {
  const auto first = [](const std::string& fabric) {
    const std::vector<Diagnostic> problems = problems_of(on_cluster("fabric: {" + fabric + "}"));
    REQUIRE(problems.size() == 1);
    return problems[0].message + "; " + problems[0].hint;
  };
  const std::string leaves = "topology: leaf_spine, nodes_per_leaf: 1, spines: 2, ";
  CHECK(first(leaves + "torus: [4, 4]") ==
        "'cluster.fabric.torus' means nothing with topology: leaf_spine; it belongs to topology: torus.");
  CHECK(first(leaves + "leaves_per_pod: 2") ==
        "'cluster.fabric.leaves_per_pod' means nothing with topology: leaf_spine; it belongs to topology: "
        "fat_tree, dragonfly_plus.");
  CHECK(first(leaves + "hop_latency: 1 us").starts_with("'cluster.fabric.hop_latency' means nothing"));
  CHECK(first("topology: non_blocking, spines: 2").starts_with("'cluster.fabric.spines' means nothing"));
  CHECK(first("topology: torus, torus: [4, 4], pxn: true").starts_with("'cluster.fabric.pxn' means nothing"));
  CHECK(first("topology: dragonfly_plus, nodes_per_leaf: 1, leaves_per_pod: 1, spines: 2, cores: 4") ==
        "'cluster.fabric.cores' means nothing with topology: dragonfly_plus; it belongs to topology: "
        "fat_tree.");
}

TEST_CASE("another topology may be chosen over a preset's keys, and by --set over a job's") {
  const std::string own = edited(edited("bf16", "fp16"), "{from: dgx_h100, nodes: 1}",
                                 "{from: dgx1_v100, nodes: 1, intra_node: {topology: nvswitch}}");
  CHECK(load(own).cluster.wiring.topology == IntraNodeTopology::nvswitch);  // nvlinks are the preset's
  // Of 4 GPUs: that the preset's have 6 links each is written nowhere in the job.
  CHECK(load(edited(own, "nodes: 1,", "nodes: 2, gpus_per_node: 4,")).cluster.gpus_per_node == 4);
  const std::string job = on_cluster("fabric: {topology: leaf_spine, nodes_per_leaf: 1, spines: 2}");
  CHECK(told(job, {{"cluster.fabric.topology", "non_blocking"}}) == "accepted");
  CHECK(told(job, {{"cluster.fabric.cores", "2"}}).starts_with("--set cluster.fabric.cores=2: error: "));
  CHECK(told(job, {{"cluster.fabric.topology", "non_blocking"}, {"cluster.fabric.spines", "4"}})
            .starts_with("--set cluster.fabric.spines=4: error: "));
}

TEST_CASE("recompute of what the model does not have is refused") {
  const auto first = [](const std::string& section) {
    return problems_of(small_job + "recompute: " + section + "\n").at(0).message;
  };
  CHECK(first("{granularity: selective, modules: [mamba]}") ==
        "recompute module mamba is about Mamba layers, and the model has none");
  CHECK(first("{granularity: selective, modules: [core_attn, moe_act]}") ==
        "recompute module moe_act is about experts, and the model has none");
  CHECK(first("{granularity: selective, modules: [mla_up_proj]}") ==
        "recompute module mla_up_proj is about latent attention, and the model has none");
  CHECK(first("{granularity: full, num_layers: 9}") == "a checkpoint of 9 layers, and the model has 8");
  CHECK(load(small_job + "recompute: {granularity: full, num_layers: 8}\n").recompute.num_layers == 8);
}

TEST_CASE("keys that are asked for twice are listed once") {
  const std::string listed = problems_of(edited("nodes: 1}", "nodes: 1, host: {foo: 1}}")).at(0).hint;
  CAPTURE(listed);
  CHECK(listed.find("nvme_read_bandwidth") == listed.rfind("nvme_read_bandwidth"));
  CHECK(listed.find("nvme_read_bandwidth") != std::string::npos);
}

}  // namespace simrun::test
