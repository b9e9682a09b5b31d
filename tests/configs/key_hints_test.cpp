#include <catch2/catch.hpp>
#include <string>

#include "configs/name_hints.h"
#include "small_job.h"

namespace simrun {
namespace {

using test::edited, test::problems_of, test::refusal;

TEST_CASE("a misspelt key is refused where it stands, with the right spelling") {
  CHECK(refusal(edited("pipeline_model_parallel_size", "pipeline_model_paralel_size")) ==
        "job.yaml:15:3: error: unknown key 'pipeline_model_paralel_size' in 'parallelism'\n"
        "  hint: did you mean 'pipeline_model_parallel_size'?\n"
        "1 error; nothing was run.\n");
}

TEST_CASE("other tools' spellings are refused with ours") {
  const auto hint = [](const std::string& key) {
    return problems_of(edited("parallelism:\n", "parallelism:\n  " + key + ": 2\n")).at(0).hint;
  };
  CHECK(hint("tensor_parallel_degree") ==
        "torchtitan calls it so; here it is parallelism.tensor_model_parallel_size.");
  CHECK(hint("tp") == "nanotron calls it so; here it is parallelism.tensor_model_parallel_size.");
  CHECK(hint("tp_size") == "SimuMax calls it so; here it is parallelism.tensor_model_parallel_size.");
  CHECK(hint("use_distributed_optimizer") == "Megatron-LM calls it so; here it is optimizer.zero_stage: 1.");
  CHECK(hint("micro_batch_size") == "it belongs in 'training'.");
  CHECK(hint("zero_stag") == "did you mean 'zero_stage' in 'optimizer'?");
  CHECK(hint("num_virtual_stages") == "did you mean 'virtual_pipeline_model_parallel_size'?");
  CHECK(hint("pipeline") == "did you mean 'pipeline_model_parallel_size'?");
  CHECK(hint("zero") == "did you mean 'zero_stage' in 'optimizer'?");
  CHECK(hint("\"<<\"") == "YAML merge keys are not accepted; `from: file` starts from another file.");
  CHECK(hint("banana").empty());
}

TEST_CASE("a key of other words is refused with those that share some") {
  const auto hint = [](const std::string& section, const std::string& key) {
    const std::string text = section == "cluster"
                                 ? edited("cluster: {", "cluster: {" + key + ": 2, ")
                                 : edited(section + ":\n", section + ":\n  " + key + ": 2\n");
    return problems_of(text).at(0).hint;
  };
  CHECK(hint("cluster", "num_nodes") == "did you mean 'nodes'?");
  CHECK(hint("cluster", "gpu_type") == "did you mean 'gpu'?");
  CHECK(hint("training", "micro_batch") == "did you mean 'micro_batch_size'?");
  CHECK(hint("parallelism", "tensor_degree") == "did you mean 'tensor_model_parallel_size'?");
  CHECK(hint("cluster", "nodes_per_lef") == "did you mean 'nodes_per_leaf' in 'cluster.fabric'?");
  CHECK(hint("parallelism", "num_bananas").empty());
}

TEST_CASE("a model's key under one of its other names is refused with this family's") {
  const auto hint = [](const std::string& family, const std::string& key) {
    const std::string text =
        edited("model_type: gpt\n", "model_type: " + family + "\n  " + key + ": 2  # extra\n");
    for (const Diagnostic& problem : problems_of(text))
      if (problem.message == "unknown key '" + key + "' in 'model'" && problem.position.line == 4)
        return problem.hint;
    return std::string("not refused");
  };
  CHECK(hint("llama", "num_query_groups") == "did you mean 'num_key_value_heads'?");
  CHECK(hint("llama", "n_kv_heads") == "did you mean 'num_key_value_heads'?");
  CHECK(hint("llama", "ffn_hidden_size") == "did you mean 'intermediate_size'?");
  CHECK(hint("llama", "n_layers") == "did you mean 'num_hidden_layers'?");
  CHECK(hint("llama", "layers") == "did you mean 'num_hidden_layers'?");
  CHECK(hint("llama", "dim") == "did you mean 'hidden_size'?");
  CHECK(hint("llama", "hidden_dim") == "did you mean 'intermediate_size'?");
  CHECK(hint("mixtral", "n_shared_experts") == "this family's experts have no such key.");
  CHECK(hint("mixtral", "moe_router_topk") == "did you mean 'num_experts_per_tok'?");
  CHECK(hint("gpt2", "num_hidden_layers") == "did you mean 'n_layer'?");
  CHECK(hint("llama", "num_experts") ==
        "this family has no experts; mixtral, qwen3_moe and deepseek_v3 have, and gpt with num_experts.");
}

TEST_CASE("an unknown preset is refused with those that its words may mean") {
  const std::vector<std::string> names = {"codellama-34b", "dgx_h100",   "gpt2",
                                          "gpt3-175b",     "h100_nvl_8", "llama2-70b",
                                          "llama3-8b",     "llama3-70b", "qwen2.5-7b"};
  CHECK(did_you_mean("gpt3", names) == "did you mean 'gpt3-175b'?");
  CHECK(did_you_mean("h100_dgx", names) == "did you mean 'dgx_h100'?");
  CHECK(did_you_mean("H100", names) == "did you mean 'dgx_h100' or 'h100_nvl_8'?");
  CHECK(did_you_mean("llama-70b", names) == "did you mean 'llama2-70b' or 'llama3-70b'?");
  CHECK(did_you_mean("lama3-8b", names) == "did you mean 'llama3-8b'?");
  CHECK(did_you_mean("models/Llama_3_8B.yaml", names) == "did you mean 'llama3-8b'?");
  CHECK(did_you_mean("Qwen/Qwen2.5-7B-Instruct", names) == "did you mean 'qwen2.5-7b'?");
  CHECK(did_you_mean("banana", names).empty());
  CHECK(did_you_mean("/", names).empty());
  CHECK(did_you_mean("a", {"a1", "a2", "a3", "a4", "a5", "a6"}) == "one of a1, a2, a3, a4, a5, a6.");
}

}  // namespace
}  // namespace simrun
