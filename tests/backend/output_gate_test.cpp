#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// Attention whose output a gate of its own product lets through (Qwen3-Next).
namespace simrun {
namespace {

std::string gated_model(const std::string& more) {
  return "model: {model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, "
         "num_query_groups: 2, ffn_hidden_size: 40, vocab_size: 50, normalization: RMSNorm, qk_layernorm: "
         "true, position_embedding_type: rope, rotary_percent: 0.5, kv_channels: 8, attention_dropout: 0, "
         "hidden_dropout: 0, attention_output_gate: true" +
         more + "}\n";
}

struct GateCase {
  const char *parallelism, *optimizer = "{}", *training = "", *model = "", *more = "";
  int gpus = 2;
};

void check_gate(const GateCase& c) {
  const std::string model = gated_model(c.model);
  check_job({model.c_str(), c.parallelism, c.optimizer, c.training, c.more, c.gpus});
}

}  // namespace

TEST_CASE("a gate of attention's output computes what one rank does however its heads are divided") {
  for (const GateCase& c :
       {GateCase{.parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}"},
        GateCase{.parallelism = "{tensor_model_parallel_size: 4}", .gpus = 4},  // of two key-value heads
        GateCase{.parallelism = "{context_parallel_size: 2}", .optimizer = "{zero_stage: 3}", .gpus = 4},
        GateCase{.parallelism = "{context_parallel_size: 2, cp_comm_type: a2a}",
        .model = ", disable_bias_linear: true"},
        GateCase{.parallelism = "{context_parallel_size: 4, cp_comm_type: a2a, context_parallel_layout: "
                                "contiguous}",  // of two key-value heads
                 .gpus = 4},
        GateCase{.parallelism = "{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}",
        .more = "recompute: {granularity: selective, modules: [core_attn]}\n"}})
    check_gate(c);
}

TEST_CASE("of a gate beside attention of which one alone is trained there is one gradient") {
  // In the first layer nothing in front of the two is trained.
  check_gate({.parallelism = "{}", .model = ", frozen: [embedding, \"layers[0].attention_gate\"]"});
  check_gate({.parallelism = "{}",
              .model = ", frozen: [embedding, \"layers[0].input_norm\", \"layers[0].qkv\", "
                       "\"layers[0].qk_norm\"]"});
}

}  // namespace simrun
