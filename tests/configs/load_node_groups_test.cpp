#include <catch2/catch.hpp>

#include "configs/node_groups.h"
#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

// The small job, 8 ranks in fp16, on a cluster of these keys.
std::string on_cluster(const std::string& keys) {
  return edited(edited(small_job, "{from: dgx_h100, nodes: 1}", "{" + keys + "}"), "bf16", "fp16");
}
const std::string group_links =
    "gpus_per_node: 4, intra_node: {latency: 2 us}, inter_node: {bandwidth: 50 Gb/s, latency: 5 us}, ";

Cluster cluster_of_groups(const std::string& keys) { return load(on_cluster(keys)).cluster; }

Diagnostic group_problem(const std::string& keys) {
  const std::vector<Diagnostic> problems = problems_of(on_cluster(keys));
  CAPTURE(render(problems));
  REQUIRE(problems.size() == 1);
  return problems[0];
}

}  // namespace

TEST_CASE("groups have their own GPUs and links; nodes are their sum") {
  const Cluster cluster = cluster_of_groups(
      group_links +
      "node_groups: {fast: {nodes: 1, gpu: v100_sxm2_32gb}, slow: {nodes: 1, gpu: p100_sxm2, intra_node: "
      "{bandwidth: 30 GB/s, latency: 9 us}}}");
  CHECK(cluster.nodes == 2);
  REQUIRE(cluster.node_groups.size() == 2);
  CHECK(cluster.node_groups[0].name == "fast");
  CHECK(cluster.gpu == cluster.node_groups[0].gpu);
  CHECK(cluster.node_groups[1].gpu.name == "p100_sxm2");
  CHECK(cluster.node_groups[0].intra_node.bandwidth == 150e9);  // its NVLink
  CHECK(cluster.node_groups[0].intra_node.latency_s == 2e-6);   // the cluster's
  CHECK(cluster.node_groups[1].intra_node.bandwidth == 30e9);
  CHECK(cluster.node_groups[1].intra_node.latency_s == 9e-6);
  CHECK(GpuKinds(cluster).count() == 2);
  CHECK(least_memory(cluster) == std::int64_t{16} << 30);
}

TEST_CASE("a group takes the cluster's GPU, or changes a number of it") {
  const Cluster cluster = cluster_of_groups(
      group_links +
      "gpu: v100_sxm2_32gb, node_groups: {old: {nodes: 1}, new: {nodes: 1, gpu: {memory: 16 GiB}}}");
  CHECK(cluster.node_groups[0].gpu == cluster.gpu);
  CHECK(cluster.node_groups[1].gpu.memory_bytes == std::int64_t{16} << 30);
  CHECK(cluster.node_groups[1].gpu.sm_count == cluster.gpu.sm_count);
}

TEST_CASE("equal groups are one kind of GPU") {
  const Cluster cluster =
      cluster_of_groups(group_links + "gpu: v100_sxm2_32gb, node_groups: {a: {nodes: 1}, b: {nodes: 1}}");
  CHECK(GpuKinds(cluster).count() == 1);
  CHECK(gpus_text(cluster) == "v100_sxm2_32gb");
}

TEST_CASE("the effective config of groups and unlike batches loads again as an equal job") {
  for (const char* batches :
       {"micro_batch_size: 1", "micro_batch_size: 2\n  replica_micro_batch_sizes: [3, 1]"}) {
    const std::string text =
        edited(edited(on_cluster("from: whale_v100_p100"), "micro_batch_size: 1", batches),
               "global_batch_size: 16", "global_batch_size: 32");
    const LoadedJob first = load_job_text(text, "job.yaml", with_presets());
    const LoadedJob again = load_job_text(first.effective_yaml, "job.yaml", with_presets());
    CHECK(again.job.cluster == first.job.cluster);
    CHECK(again.job.training == first.job.training);
    CHECK(again.job.config_sha256 == first.job.config_sha256);
  }
}

TEST_CASE("what is wrong with a group is told where it stands") {
  CHECK(group_problem(group_links + "node_groups: {fast: {nodes: 1}, slow: {nodes: 1, gpu: p100_sxm2}}")
            .message == "missing required key 'gpu' in 'cluster.node_groups.fast'");
  CHECK(group_problem(group_links +
                      "nodes: 3, gpu: v100_sxm2_32gb, node_groups: {a: {nodes: 1}, b: {nodes: 1}}")
            .message == "nodes is 3, and the node groups have 2");
  CHECK(group_problem(
            "from: pcie_8xt4, node_groups: {a: {nodes: 1}, b: {nodes: 1, intra_node: {bandwidth: 3 GB/s}}}")
            .message == "links of unlike groups on PCIe are those of cluster.pcie");
  const Diagnostic unlinked = group_problem(
      "gpus_per_node: 4, inter_node: {bandwidth: 50 Gb/s, latency: 5 us}, intra_node: {latency: 2 us}, "
      "node_groups: {a: {nodes: 1, gpu: v100_sxm2_32gb}, b: {nodes: 1, gpu: t4}}");
  CHECK(unlinked.message == "missing required key 'bandwidth' in 'cluster.node_groups.b.intra_node'");
  CHECK(unlinked.hint == "t4 has no NVLink: write it, for example 12 GB/s.");
  // Every kind must have a peak for the type of training.
  const std::vector<Diagnostic> problems = problems_of(
      edited(on_cluster(group_links +
                        "node_groups: {a: {nodes: 1, gpu: a100_sxm_80gb}, b: {nodes: 1, gpu: p100_sxm2}}"),
             "fp16", "bf16"));
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message == "p100_sxm2 has no peak_flops for bf16");
}

TEST_CASE("sizes of replicas are as many as replicas and sum to the microbatch") {
  const auto message = [](const std::string& sizes) {
    const std::vector<Diagnostic> problems =
        problems_of(edited(edited(edited(small_job, "nodes: 1", "nodes: 2"), "micro_batch_size: 1",
                                  "micro_batch_size: 2\n  replica_micro_batch_sizes: " + sizes),
                           "global_batch_size: 16", "global_batch_size: 32"));
    CAPTURE(render(problems));
    REQUIRE(problems.size() == 1);
    return problems[0].message;
  };
  CHECK(message("[3, 1, 1]") == "3 sizes for data parallel 2");
  CHECK(message("[3, 2]") == "the sizes [3, 2] sum to 5, not to micro_batch_size 2 x data parallel 2 = 4");
  CHECK(message("[4, 0]").find("0") != std::string::npos);
}

TEST_CASE("equal sizes of replicas say nothing") {
  const Job job = load(edited(edited(edited(small_job, "nodes: 1", "nodes: 2"), "micro_batch_size: 1",
                                     "micro_batch_size: 2\n  replica_micro_batch_sizes: [2, 2]"),
                              "global_batch_size: 16", "global_batch_size: 32"));
  CHECK(job.training.replica_micro_batch_sizes.empty());
}
