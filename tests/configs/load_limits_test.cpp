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
  for (const char* type : {"baichuan", "gptj", "mixtral2", "llama4", "lama"}) {
    const std::string hint = first_hint("model_type: gpt", "model_type: " + std::string(type));
    CHECK(hint.starts_with("one of bert, bloom, "));
    CHECK(hint.find(", llama, llama4_text, llava, m6, minimax_m2, mistral, mixtral, ") != std::string::npos);
  }
}

TEST_CASE("parameters and tensors that no buffer can count are refused at their section") {
  // At most 4 layers x 10^7 x (2 x 3 x 10^7 of attention + 3 x 4 x 10^7 of the MLP) = 7.2e15, above 2^50 =
  // 1.1e15; their 32 bytes each would be countable.
  const std::vector<Override> wide = {
      {"model.hidden_size", "10000000"}, {"model.num_layers", "4"}, {"training.seq_length", "128"}};
  const std::vector<Diagnostic> parameters = problems_of_text(small_job, wide);
  REQUIRE(parameters.size() == 1);
  CHECK(parameters[0].message == "too large to count: the parameters come to 7.2e+15");
  CHECK(parameters[0].position.line == 2);
  // 10^8 tokens x 10^8 rows of the vocabulary = 1e16 logits.
  const std::vector<Diagnostic> logits =
      problems_of_text(small_job, {{"training.seq_length", "100000000"},
                                   {"model.vocab_size", "100000000"},
                                   {"model.hidden_size", "4"},
                                   {"model.num_layers", "1"},
                                   {"model.num_attention_heads", "4"},
                                   {"parallelism.pipeline_model_parallel_size", "1"},
                                   {"training.global_batch_size", "2"}});
  REQUIRE(logits.size() == 1);
  CHECK(logits[0].message == "too large to count: the elements of one tensor come to 1.0e+16");
}

TEST_CASE("what a hint says of a cluster that is too small is enough, and divides") {
  // tensor 4 x pipeline 2 = 8 on nodes of 3: 3 nodes have 9 GPUs, 8 nodes 24 = 3 x 8.
  const auto hint = [](const std::string& gpus, const std::string& nodes, const std::string& batch = "48") {
    const std::vector<Diagnostic> problems =
        problems_of_text(small_job, {{"cluster", "{from: dgx_h100, nodes: " + nodes + ", nics_per_node: 1}"},
                                     {"cluster.gpus_per_node", gpus},
                                     {"training.global_batch_size", batch}});
    return problems.empty() ? "accepted" : problems.at(0).hint;
  };
  CHECK(hint("3", "1") == "8 nodes do.");
  CHECK(hint("3", "8") == "accepted");
  CHECK(hint("3", "1", "16") == "8 nodes do, with a global_batch_size that divides by 3.");
  CHECK(hint("4", "1") == "2 nodes do.");
  CHECK(hint("4", "2") == "accepted");
}

TEST_CASE("a hint's sequence is no longer than the model's positions") {
  const auto hint = [](const std::string& positions, const std::string& sequence) {
    return problems_of_text(small_job, {{"model.max_position_embeddings", positions},
                                        {"training.seq_length", sequence},
                                        {"parallelism.sequence_parallel", "true"}})
        .back()
        .hint;
  };
  CHECK(hint("64", "65") == "64 does.");  // tensor 4: 68 positions would be too many
  CHECK(hint("68", "65") == "64 and 68 do.");
  CHECK(hint("67", "66") == "64 does.");
  CHECK(hint("64", "201") == "64 does.");
  CHECK(hint("3", "3").empty());
  // A GPT's positions are by default as many as its sequence has.
  CHECK(
      problems_of_text(small_job, {{"training.seq_length", "65"}, {"parallelism.sequence_parallel", "true"}})
          .at(0)
          .hint == "64 and 68 do.");
}

TEST_CASE("virtual stages without a pipeline are refused at their key, unless a schedule is named") {
  const std::string text =
      edited("pipeline_model_parallel_size: 2",
             "pipeline_model_parallel_size: 1\n  virtual_pipeline_model_parallel_size: 2");
  CHECK(refusal(text) ==
        "job.yaml:16:41: error: 2 virtual stages per rank need pipeline_model_parallel_size 2 or more\n"
        "  hint: leave it out: without a pipeline a rank has all layers.\n"
        "1 error; nothing was run.\n");
  const std::vector<Diagnostic> named =
      problems_of(edited(text, "parallelism:\n", "parallelism:\n  pipeline_schedule: interleaved_1f1b\n"));
  REQUIRE(named.size() == 1);
  CHECK(named[0].message == "interleaved_1f1b needs pipeline_model_parallel_size 2 or more");
  CHECK(named[0].hint == "1f1b runs on one pipeline rank.");
}

TEST_CASE("a word in quotes is refused as the word that it is") {
  CHECK(problems_of(edited("model_type: gpt", "model_type: \"ggpt\"")).at(0).message ==
        "'model.model_type' cannot be 'ggpt'");
  CHECK(problems_of(edited("model_type: gpt", "model_type: \"jamba\"")).at(0).message ==
        "'jamba' for 'model.model_type' is not supported yet");
}
