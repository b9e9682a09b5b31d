#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// Models with Gated DeltaNet in attention's place in most layers compute the same however they are split.
namespace simrun {
namespace {

std::string next_model(const std::string& more) {
  return "model: {model_type: qwen3_next, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
         "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 8, vocab_size: 50, "
         "full_attention_interval: 2, linear_num_key_heads: 4, linear_num_value_heads: 8, "
         "linear_key_head_dim: 5, linear_value_head_dim: 3, num_experts: 4, num_experts_per_tok: 2, "
         "moe_intermediate_size: 16, shared_expert_intermediate_size: 12" +
         more + "}\n";
}
const std::string dense_layers = ", mlp_only_layers: [0, 1, 2]";

struct NextCase {
  const char *parallelism, *optimizer = "{}", *more = "", *training = "";
  int gpus = 2;
};

void check_next(const std::string& model, const NextCase& c) {
  check_job({model.c_str(), c.parallelism, c.optimizer, c.training, c.more, c.gpus});
}

}  // namespace

TEST_CASE(
    "Gated DeltaNet split over tensor, sequence, context, pipeline and data ranks is what one rank has") {
  const std::string model = next_model(dense_layers);
  for (const NextCase& c :
       {NextCase{.parallelism = "{tensor_model_parallel_size: 2}"},
        NextCase{.parallelism = "{context_parallel_size: 2}"},
        NextCase{.parallelism = "{context_parallel_size: 2, cp_comm_type: a2a}",
        .optimizer = "{zero_stage: 3}"},
        NextCase{.parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                                "sequence_parallel: true}",
        .optimizer = "{zero_stage: 1}",
        .gpus = 8}})
    check_next(model, c);
}

TEST_CASE("Gated DeltaNet under every ZeRO stage, recompute and a split backward pass", "[long]") {
  const std::string model = next_model(dense_layers);
  for (const NextCase& c :
       {NextCase{.parallelism = "{tensor_model_parallel_size: 4, sequence_parallel: true}", .gpus = 4},
        NextCase{.parallelism =
                     "{tensor_model_parallel_size: 2, context_parallel_size: 2, sequence_parallel: "
                     "true}",
        .optimizer = "{zero_stage: 2}",
        .gpus = 8},
        NextCase{
            .parallelism = "{}", .optimizer = "{zero_stage: 3}", .more = "recompute: {granularity: full}\n"},
        NextCase{.parallelism = "{pipeline_model_parallel_size: 4, pipeline_schedule: zb_h1}", .gpus = 4},
        NextCase{.parallelism = "{pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 2}"},
        NextCase{.parallelism = "{tensor_model_parallel_size: 2}",
        .more = "recompute: {granularity: selective, saved: [delta_in, core_attn]}\n"},
        NextCase{.parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}",
        .more = "recompute: {granularity: selective, modules: [delta_net, mlp]}\n"},
        NextCase{.parallelism = "{}",
        .training = ", lora: {rank: 3, alpha: 5, targets: [delta_in, delta_gate, delta_out, qkv]}"}})
    check_next(model, c);
}

TEST_CASE(
    "experts and their gated shared one beside Gated DeltaNet, and a layer that predicts a further token") {
  check_next(next_model(""), {.parallelism = "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, "
                                             "sequence_parallel: true}",
                              .optimizer = "{zero_stage: 1}",
                              .gpus = 4});
  check_next(next_model(", num_nextn_predict_layers: 1"),
             {.parallelism = "{pipeline_model_parallel_size: 2, expert_model_parallel_size: 2}", .gpus = 4});
}

TEST_CASE("of Gated DeltaNet whose gate or whose scan alone is trained there is one gradient") {
  check_next(next_model(dense_layers + ", frozen: [embedding, \"layers[0].delta_gate\"]"),
             {.parallelism = "{}"});
  check_next(
      next_model(dense_layers + ", frozen: [embedding, \"layers[0].input_norm\", \"layers[0].delta_in\", "
                                "\"layers[0].delta_scan\", \"layers[0].delta_norm\"]"),
      {.parallelism = "{}"});
}

}  // namespace simrun
