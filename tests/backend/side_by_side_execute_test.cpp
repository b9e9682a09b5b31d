#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/checked_run.h"
#include "tests/backend/expert_job_check.h"
#include "tests/backend/expert_jobs.h"

// What Command R, Granite, DBRX and Llama 4 have and other families have not, on every kind of layout.
namespace simrun {
namespace {

// One norm for attention and MLP, windows, layers without rotary positions, scaled logits.
const char* const tiny_command =
    "model: {model_type: cohere2, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, sliding_window: 3, "
    "sliding_window_pattern: 2}\n";
// A norm of each head, biases.
const char* const tiny_command_plus =
    "model: {model_type: cohere, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, use_qk_norm: true, attention_bias: "
    "true}\n";
const char* const tiny_granite =
    "model: {model_type: granite, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, attention_multiplier: 0.3, "
    "embedding_multiplier: 5, residual_multiplier: 0.4, logits_scaling: 3, attention_bias: true}\n";

}  // namespace

TEST_CASE("side by side, branches of one norm compute the same with every ZeRO stage, schedule and recompute",
          "[long]") {
  struct Case {
    const char *parallelism, *optimizer, *more;
    int gpus;
  };
  for (const char* model : {tiny_command, tiny_command_plus, tiny_granite})
    for (const Case& c : {Case{"{tensor_model_parallel_size: 2}", "{zero_stage: 2}", "", 4},
                          Case{"{}", "{zero_stage: 3}", "recompute: {granularity: full}\n", 2},
                          Case{"{tensor_model_parallel_size: 2, sequence_parallel: true}", "{zero_stage: 3}",
                               "recompute: {granularity: selective, modules: [layernorm, core_attn]}\n", 4},
                          Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}", "{}",
                               "recompute: {granularity: selective, modules: [mlp]}\n", 2},
                          Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: interleaved_1f1b, "
                               "virtual_pipeline_model_parallel_size: 2}",
                               "{zero_stage: 1}", "", 4}}) {
      CAPTURE(model, c.parallelism, c.more);
      check_job({.model = model,
                 .parallelism = c.parallelism,
                 .optimizer = c.optimizer,
                 .more = c.more,
                 .gpus = c.gpus});
    }
}

TEST_CASE("windows, chunks and scaled queries go by tokens' places, whichever context-parallel rank has them",
          "[long]") {
  for (const char* layout : {"zigzag", "contiguous"})
    for (const char* exchange : {"p2p", "all_gather", "a2a"}) {
      CAPTURE(layout, exchange);
      const std::string parallelism = "{context_parallel_size: 2, cp_comm_type: " + std::string(exchange) +
                                      ", context_parallel_layout: " + layout + "}";
      check_job({.model = tiny_command, .parallelism = parallelism, .gpus = 2});
      check_expert_job({.model = tiny_llama4, .parallelism = parallelism, .gpus = 2});
    }
}

TEST_CASE("what experts read is scaled before it is sent, by every dispatcher", "[long]") {
  for (const char* parallelism :
       {"{expert_model_parallel_size: 4}",
        "{expert_model_parallel_size: 4, tensor_model_parallel_size: 2, sequence_parallel: true, "
        "expert_tensor_parallel_size: 1}",
        "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2, tensor_model_parallel_size: 2, "
        "sequence_parallel: true}",
        "{expert_model_parallel_size: 2, pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}"})
    for (const char* dispatcher : {"alltoall", "allgather", "deepep"}) {
      CAPTURE(parallelism, dispatcher);
      check_expert_job({.model = tiny_llama4,
                        .parallelism = parallelism,
                        .optimizer = "{zero_stage: 1}",
                        .more = "moe: {token_dispatcher: " + std::string(dispatcher) + "}\n",
                        .gpus = 4});
    }
  for (const char* model : {tiny_llama4, tiny_dbrx}) {
    check_expert_job(
        {.model = model,
         .parallelism = "{expert_model_parallel_size: 2}",
         .optimizer = "{zero_stage: 3}",
         .more = "moe: {capacity_factor: 0.75}\nrecompute: {granularity: selective, modules: [moe]}\n",
         .gpus = 4});
    check_expert_job({.model = model,
                      .parallelism = "{expert_model_parallel_size: 2}",
                      .more = "recompute: {granularity: full}\n",
                      .gpus = 2});
  }
}

}  // namespace simrun
