#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::vector<Diagnostic> problems_of_text(const std::string& text, std::vector<Override> overrides) {
  LoadOptions options = with_presets();
  options.overrides = std::move(overrides);
  return problems_of(text, options);
}

std::string first_hint(const std::string& from, const std::string& to) {
  return problems_of(edited(from, to)).at(0).hint;
}

}  // namespace

TEST_CASE("a missing preset does not hide what else is wrong in its section") {
  const std::vector<Diagnostic> cluster =
      problems_of(edited("{from: dgx_h100, nodes: 1}", "{from: dgx_h10, nodes: 0, gpu: h1000}"));
  REQUIRE(cluster.size() == 3);
  CHECK(cluster[0].message == "no file 'dgx_h10' in clusters/");
  CHECK(cluster[1].message == "'cluster.nodes': must be at least 1, not 0");
  CHECK(cluster[2].message == "no file 'h1000' in gpus/");
  CHECK(problems_of(edited("from: dgx_h100", "from: .")).at(0).message == "'.' is a directory, not a file");
  const std::vector<Diagnostic> gpu =
      problems_of(edited("nodes: 1", "nodes: 1, gpu: {from: h1000, memory: 80, banana: 1}"));
  REQUIRE(gpu.size() == 3);
  CHECK(gpu[1].message == "'cluster.gpu.memory': needs a unit: 80 of what?");
  CHECK(gpu[2].message == "unknown key 'banana' in 'cluster.gpu'");
  CHECK(problems_of(edited("{from: dgx_h100, nodes: 1}", "{from: dgx_h10, intra_node: {efficiency: 2}}"))
            .size() == 2);
  const std::vector<Diagnostic> model = problems_of(edited(
      "  model_type: gpt\n  num_layers: 8\n", "  from: gpt9000\n  model_type: gpt\n  num_layers: 0\n"));
  REQUIRE(model.size() == 2);
  CHECK(model[1].message == "'model.num_layers': must be at least 1, not 0");
}

TEST_CASE("a refused granularity does not hide what is wrong beside it") {
  const std::vector<Diagnostic> problems = problems_of(
      edited("cluster:", "recompute: {granularity: some, modules: [banana], num_layers: 0}\ncluster:"));
  REQUIRE(problems.size() == 3);
  CHECK(problems[1].message.find("banana") != std::string::npos);
  CHECK(problems[2].message == "'recompute.num_layers': must be at least 1, not 0");
}

TEST_CASE("reals with an exponent mean the same as without") {
  const std::string plain = edited("num_layers: 8", "num_layers: 8\n  attention_dropout: 0.1");
  const std::string exponent = edited("num_layers: 8", "num_layers: 8\n  attention_dropout: 1e-1");
  CHECK(load(exponent).training.attention_dropout == 0.1);
  CHECK(load(exponent).config_sha256 == load(plain).config_sha256);
  const LoadedJob small = load_job_text(edited(plain, "0.1", "1.5e-7"), "job.yaml", with_presets());
  CHECK(load_job_text(small.effective_yaml, "job.yaml", LoadOptions{}).job == small.job);
}

TEST_CASE("hints for what people write out of habit") {
  for (const char* key : {"n_routed_experts", "num_local_experts"})
    CHECK(first_hint("num_layers: 8", "num_layers: 8\n  " + std::string(key) + ": 8") ==
          "this family has no experts; mixtral, qwen3_moe and deepseek_v3 have, and gpt with num_experts.");
  CHECK(first_hint("parallelism:\n", "parallelism:\n  sequence_parallel: yes\n") == "write true.");
  CHECK(first_hint("parallelism:\n", "parallelism:\n  sequence_parallel: on\n") == "write true.");
  CHECK(first_hint("parallelism:\n", "parallelism:\n  sequence_parallel: No\n") == "write false.");
  CHECK(first_hint("{from: dgx_h100, nodes: 1}", "dgx_h100") == "write cluster: {from: dgx_h100}.");
  CHECK(first_hint("{from: dgx_h100, nodes: 1}", "8").empty());
  CHECK(problems_of_text(small_job, {{"cluster.gpu", "t4"}, {"training.precision", "fp16"}}).at(0).hint ==
        "the GPU has no NVLink: write cluster.intra_node.bandwidth, for example 16 GB/s.");
}

TEST_CASE("links that are no map are refused once, on a GPU without NVLink too") {
  CHECK(problems_of_text(small_job,
                         {{"cluster.gpu", "t4"}, {"training.precision", "fp16"}, {"cluster.intra_node", "5"}})
            .size() == 1);
}

TEST_CASE("what YAML has and a job must not hides no other fault, and makes none") {
  std::string text = edited(small_job, "micro_batch_size: 1", "micro_batch_size: &one 1");
  text = edited(text, "precision: bf16", "precision: bf17");
  text = edited(text, "nodes: 1", "nodes: *one");
  const std::vector<Diagnostic> problems = problems_of(text);
  REQUIRE(problems.size() == 3);
  CHECK(problems[0].message == "YAML anchors (&name) are not accepted");
  CHECK(problems[1].message == "'training.precision' cannot be 'bf17'");
  CHECK(problems[2].message == "YAML aliases (*name) are not accepted");
}

TEST_CASE("an unknown model type is answered with the supported ones, never with a look-alike") {
  for (const char* type : {"dbrx", "gptj", "mixtral2", "llama4_text", "lama"}) {
    const std::string hint = first_hint("model_type: gpt", "model_type: " + std::string(type));
    CHECK(hint.starts_with("one of bert, bloom, "));
    CHECK(hint.find(", llama, llava, m6, mistral, mixtral, ") != std::string::npos);
  }
}
