#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// Low-rank adapters, of experts and beside weights in NF4: what is trained, and what stays as it was, is what
// one rank has.
namespace simrun {
namespace {

// Qwen3's, whose layers are all of experts.
constexpr const char* tiny_qwen3_moe =
    "model: {model_type: qwen3_moe, num_hidden_layers: 2, hidden_size: 24, num_attention_heads: 4, "
    "num_key_value_heads: 2, head_dim: 6, intermediate_size: 40, moe_intermediate_size: 10, num_experts: 4, "
    "num_experts_per_tok: 2, vocab_size: 50}\n";

}  // namespace

TEST_CASE("adapters and what is frozen around them") {
  for (const char* targets : {"[qkv, attention_projection, fc1, fc2]", "[q, v]", "[k, fc2]"}) {
    const std::string training = ", lora: {rank: 3, alpha: 5, targets: " + std::string(targets) + "}";
    check_job({.model = tiny_llama,
               .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                              "sequence_parallel: true}",
               .optimizer = "{zero_stage: 1}",
               .training = training,
               .gpus = 8});
    check_job({.model = tiny_gpt,
               .parallelism = "{}",
               .optimizer = "{zero_stage: 3}",
               .training = training,
               .more = "recompute: {granularity: full}\n",
               .gpus = 2});
  }
}

TEST_CASE("adapters beside frozen weights in NF4, made whole for each product, in any split") {
  const std::string training = ", lora: {rank: 3, alpha: 5, base_dtype: nf4}";
  check_job({.model = tiny_llama,
             .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                            "sequence_parallel: true}",
             .optimizer = "{zero_stage: 1}",
             .training = training,
             .gpus = 8});
  for (const char* recompute :
       {"", "recompute: {granularity: full}\n", "recompute: {granularity: selective, modules: [mlp]}\n",
        "recompute: {granularity: selective, saved: [qkv]}\n"})
    check_job({.model = tiny_gpt,
               .parallelism = "{}",
               .optimizer = "{zero_stage: 3}",
               .training = training,
               .more = recompute,
               .gpus = 2});
}

// The word table, of which the further layer's embedding is half of what it joins, is frozen.
TEST_CASE("adapters of a model that predicts further tokens") {
  const std::string model =
      std::string(tiny_gpt).insert(std::string(tiny_gpt).rfind('}'), ", mtp_num_layers: 1");
  for (const char* parallelism :
       {"{}", "{pipeline_model_parallel_size: 2}", "{tensor_model_parallel_size: 2}"})
    check_job({.model = model.c_str(),
               .parallelism = parallelism,
               .training = ", lora: {rank: 3, alpha: 5}",
               .gpus = 2});
}

TEST_CASE("adapters of experts, each expert's own, beside weights in NF4") {
  const std::string training = ", lora: {rank: 3, alpha: 5, base_dtype: nf4}";
  check_job({.model = tiny_qwen3_moe,
             .parallelism = "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, "
                            "expert_tensor_parallel_size: 1, sequence_parallel: true}",
             .optimizer = "{zero_stage: 1}",
             .training = training,
             .gpus = 4});
  // Nothing before the first layer's experts is trained: their router has no gradient.
  check_job({.model = tiny_qwen3_moe,
             .parallelism = "{expert_model_parallel_size: 2}",
             .training = ", lora: {rank: 3, targets: [fc1, fc2]}",
             .gpus = 2});
  const std::string gated =
      "model: {model_type: qwen2_moe, num_hidden_layers: 2, hidden_size: 24, "
      "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 40, "
      "moe_intermediate_size: 10, shared_expert_intermediate_size: 12, num_experts: 4, "
      "num_experts_per_tok: 2, vocab_size: 50}\n";
  check_job({.model = gated.c_str(),
             .parallelism = "{tensor_model_parallel_size: 2}",
             .training = ", lora: {rank: 3, targets: [fc1]}",
             .gpus = 2});
  check_job({.model = tiny_qwen3_moe,
             .parallelism = "{expert_model_parallel_size: 2}",
             .optimizer = "{zero_stage: 3}",
             .training = training,
             .more = "moe: {capacity_factor: 2}\nrecompute: {granularity: full}\n",
             .gpus = 4});
}

TEST_CASE("dropout in front of experts' adapters follows tokens, wherever their experts are") {
  for (const char* parallelism : {"{expert_model_parallel_size: 2}",
                                  "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2, "
                                  "tensor_model_parallel_size: 2, sequence_parallel: true}",
                                  "{expert_model_parallel_size: 4}", "{pipeline_model_parallel_size: 2}"})
    check_job({.model = tiny_qwen3_moe,
               .parallelism = parallelism,
               .training = ", lora: {rank: 3, dropout: 0.2}",
               .gpus = 4});
  check_job({.model = tiny_qwen3_moe,
             .parallelism = "{expert_model_parallel_size: 4}",
             .training = ", lora: {rank: 3, dropout: 0.2}",
             .more = "moe: {token_dispatcher: deepep}\nrecompute: {granularity: full}\n",
             .gpus = 4});
}

}  // namespace simrun
