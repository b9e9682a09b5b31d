#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

// A small job whose cluster says this of collectives.
std::string job_with_collectives(const std::string& collectives) {
  return "simrun: 1\n"
         "model: {model_type: gpt, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 128}\n"
         "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
         "cluster:\n  from: dgx_h100\n  nodes: 2\n" +
         collectives;
}

CollectivesConfig collectives_of(const std::string& collectives) {
  return load_job_text(job_with_collectives(collectives), "job.yaml", with_presets()).job.cluster.collectives;
}

std::vector<Diagnostic> problems_with(const std::string& collectives) {
  try {
    collectives_of(collectives);
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

using enum CollectiveAlgorithm;

}  // namespace

TEST_CASE("a cluster says nothing of collectives unless it is asked to") {
  CHECK(collectives_of("") == CollectivesConfig{});
  for (const char* preset : {"dgx_h100", "dgx_a100"}) {
    LoadOptions options = with_presets();
    options.overrides = {{"cluster.nodes", "2"}};
    CHECK(load_cluster(preset, options).collectives == CollectivesConfig{});
  }
}

TEST_CASE("collectives: nccl is NCCL's table") {
  const CollectivesConfig nccl = collectives_of("  collectives: nccl\n");
  CHECK(nccl == collectives_of("  collectives: {from: nccl}\n"));
  const CollectivePace simple = nccl.paces.at({ring, CollectiveProtocol::simple});
  CHECK(simple.base_s == Approx(8.4e-6));
  CHECK(simple.nvlink_s == Approx(3.4e-6));
  CHECK(simple.network_s == Approx(14e-6));
  CHECK(nccl.paces.at({ring, CollectiveProtocol::ll}).efficiency == 0.5);
  CHECK(nccl.paces.count({nvls, CollectiveProtocol::ll}) == 0);
  CHECK(nccl.forced == CollectiveChoice{});
  // Ampere's and Volta's differ in what a channel can do.
  const CollectivesConfig volta = collectives_of("  collectives: nccl_volta\n");
  CHECK(volta.paces.at({ring, CollectiveProtocol::ll}).one_node_bandwidth == 39e9);
  CHECK(volta.paces.at({ring, CollectiveProtocol::simple}) == simple);
  CHECK(collectives_of("  collectives: nccl_ampere\n").paces.size() == nccl.paces.size());
}

TEST_CASE("keys over the name of a table change the table") {
  LoadOptions options = with_presets();
  options.overrides = {{"cluster.collectives", "nccl"}, {"cluster.collectives.all_gather.algorithm", "ring"}};
  const CollectivesConfig config =
      load_job_text(job_with_collectives(""), "job.yaml", options).job.cluster.collectives;
  CHECK(config.paces == collectives_of("  collectives: nccl\n").paces);
  CHECK(forced_choice(config, "all_gather").algorithm == ring);
}

TEST_CASE("an algorithm is forced for all collectives that have it, or for one") {
  const CollectivesConfig config = collectives_of(
      "  collectives:\n    from: nccl\n    algorithm: tree\n    all_gather: {algorithm: ring, protocol: "
      "ll128}\n");
  CHECK(forced_choice(config, "all_reduce").algorithm == tree);
  CHECK(forced_choice(config, "broadcast").algorithm == ring);            // NCCL has no other
  CHECK(forced_choice(config, "reduce_scatter").algorithm == automatic);  // has no tree
  CHECK(forced_choice(config, "all_gather") == CollectiveChoice{ring, CollectiveProtocol::ll128});
}

TEST_CASE("without NCCL's table a broadcast may go through a tree") {
  CHECK(forced_choice(collectives_of("  collectives: {algorithm: tree}\n"), "broadcast").algorithm == tree);
}

TEST_CASE("the effective config with collectives loads again as an equal job") {
  for (const char* collectives :
       {"", "  collectives: nccl\n", "  collectives: {algorithm: two_level}\n",
        "  collectives:\n    from: nccl_ampere\n    channels: 4\n    protocol: simple\n"
        "    all_to_all: {algorithm: hierarchical}\n    experts_per_token: 8\n    nodes_per_token: 4\n"}) {
    const LoadedJob loaded = load_job_text(job_with_collectives(collectives), "job.yaml", with_presets());
    CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
  }
}

TEST_CASE("what is wrong with collectives is said at once, each where it is written") {
  const std::vector<Diagnostic> problems = problems_with(
      "  collectives:\n    algorithm: tre\n    protocol: ll\n    all_gather: {algorithm: tree}\n"
      "    channels: 0\n    algorithms: {rings: {simple: {}}, ring: {simple: {bse: 1 us}}}\n");
  REQUIRE(problems.size() == 6);
  std::string all;
  for (const Diagnostic& problem : problems) {
    CHECK(problem.position.line >= 8);
    all += problem.message + " " + problem.hint + "\n";
  }
  CAPTURE(all);
  for (const char* said : {"tre", "did you mean 'tree'?", "rings", "did you mean 'ring'?", "bse", "base"})
    CHECK(all.find(said) != std::string::npos);
}

TEST_CASE("reductions in switches need switches that reduce, and a protocol a table that has it") {
  const std::vector<Diagnostic> fabric = problems_with("  collectives: {algorithm: collnet_chain}\n");
  REQUIRE(fabric.size() == 1);
  CHECK(fabric[0].message == "collnet_chain reduces in switches, which those of inter_node do not");
  CHECK(fabric[0].hint == "cluster.inter_node.sharp: true says that they do.");
  CHECK(problems_with("  collectives: {algorithm: nvls_tree}\n").empty());  // dgx_h100
  const std::vector<Diagnostic> protocol = problems_with("  collectives: {protocol: ll128}\n");
  REQUIRE(protocol.size() == 1);
  CHECK(protocol[0].hint == "collectives: {from: nccl} does.");
  CHECK(problems_with("  collectives: {from: nccl, algorithm: nvls, protocol: ll}\n").size() == 1);
  CHECK(problems_with("  collectives: ncl\n").at(0).hint == "did you mean 'nccl'?");
}
