#include <catch2/catch.hpp>
#include <string>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// Every family of text models whose layers are dense, in a shape of a few thousand parameters: split over
// tensors, pipeline and data it computes what one rank does.
namespace simrun {
namespace {

struct TextFamily {
  const char* name;
  const char* model;
  const char* training = "";
};

const TextFamily families[] = {
    {"gpt2",
     "n_layer: 4, n_embd: 24, n_head: 4, vocab_size: 50, n_positions: 12, attn_pdrop: 0, "
     "resid_pdrop: 0, embd_pdrop: 0"},
    {"gpt_neox",
     "num_hidden_layers: 4, hidden_size: 32, intermediate_size: 40, num_attention_heads: 4, "
     "vocab_size: 50, rotary_pct: 0.5, rotary_emb_base: 500"},
    {"opt",
     "num_hidden_layers: 4, hidden_size: 24, ffn_dim: 40, num_attention_heads: 4, vocab_size: 50, "
     "max_position_embeddings: 12, dropout: 0"},
    {"bloom", "n_layer: 4, hidden_size: 24, n_head: 4, vocab_size: 50"},
    {"mpt", "n_layers: 4, d_model: 24, n_heads: 6, expansion_ratio: 2, vocab_size: 50, max_seq_len: 12"},
    {"mistral",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, sliding_window: 3, rms_norm_eps: 0.01"},
    {"qwen2",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, tie_word_embeddings: true"},
    {"qwen3",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, head_dim: 8, vocab_size: 50, rope_theta: 77"},
    {"nemotron",
     "num_hidden_layers: 4, hidden_size: 32, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50"},
    {"phi3",
     "num_hidden_layers: 4, hidden_size: 32, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, partial_rotary_factor: 0.75, sliding_window: 4"},
    {"gemma2",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, head_dim: 6, vocab_size: 50, attn_logit_softcapping: 0.7, "
     "final_logit_softcapping: 0.9, query_pre_attn_scalar: 9, sliding_window: 3"},
    {"deepseek_v2",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, vocab_size: 50, "
     "kv_lora_rank: 12, qk_nope_head_dim: 6, qk_rope_head_dim: 4, v_head_dim: 5, n_routed_experts: 4, "
     "num_experts_per_tok: 2, moe_intermediate_size: 8, first_k_dense_replace: 4"},
    {"deepseek_v3",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, vocab_size: 50, "
     "q_lora_rank: 10, kv_lora_rank: 12, qk_nope_head_dim: 6, qk_rope_head_dim: 4, v_head_dim: 5, "
     "n_routed_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 8, first_k_dense_replace: 4, "
     "num_nextn_predict_layers: 1"},
    {"bert",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "vocab_size: 50, max_position_embeddings: 12, attention_probs_dropout_prob: 0, "
     "hidden_dropout_prob: 0"},
    {"t5",
     "num_layers: 2, d_model: 24, d_kv: 5, d_ff: 40, num_heads: 4, vocab_size: 50, dropout_rate: 0, "
     "relative_attention_num_buckets: 8, relative_attention_max_distance: 6",
     ", decoder_seq_length: 4"},
    {"m6",
     "encoder_num_layers: 2, hidden_size: 24, ffn_hidden_size: 40, num_attention_heads: 4, vocab_size: 50, "
     "max_position_embeddings: 12, attention_dropout: 0, hidden_dropout: 0",
     ", decoder_seq_length: 4"},
};

std::string model_of(const TextFamily& family, const std::string& more = "") {
  return "model: {model_type: " + std::string(family.name) + ", " + family.model + more + "}\n";
}

const TextFamily& family_named(const std::string& name) {
  for (const TextFamily& family : families)
    if (family.name == name) return family;
  throw std::invalid_argument(name);
}

}  // namespace

TEST_CASE("text families over tensor, pipeline and data ranks compute what one rank does") {
  for (const TextFamily& family : families) {
    const std::string model = model_of(family);
    check_job({.model = model.c_str(),
               .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                              "sequence_parallel: true}",
               .optimizer = "{zero_stage: 1}",
               .training = family.training,
               .gpus = 8});
  }
}

TEST_CASE("latent attention computes the same with every ZeRO stage, pipeline schedule and recompute") {
  const std::string model = model_of(family_named("deepseek_v2"), ", q_lora_rank: 10");
  struct Case {
    const char *parallelism, *optimizer, *more, *training;
    int gpus;
  };
  for (const Case& c :
       {Case{"{tensor_model_parallel_size: 2}", "{zero_stage: 2}", "", "", 4},
        Case{"{tensor_model_parallel_size: 4, sequence_parallel: true}", "{}", "", "", 4},
        Case{"{}", "{zero_stage: 3}", "recompute: {granularity: full}\n", "", 2},
        Case{"{tensor_model_parallel_size: 2, sequence_parallel: true}", "{zero_stage: 3}",
             "recompute: {granularity: selective, modules: [mla_up_proj]}\n", "", 4},
        Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}", "{}",
             "recompute: {granularity: selective, modules: [mla_up_proj, core_attn]}\n", "", 2},
        Case{"{tensor_model_parallel_size: 2}", "{}", "",
             ", attention: unfused, attention_dropout: 0.2, hidden_dropout: 0.1", 4}})
    check_job({model.c_str(), c.parallelism, c.optimizer, c.training, c.more, c.gpus});
}

TEST_CASE("an encoder-decoder computes the same wherever its pipeline is cut") {
  for (const char* name : {"t5", "m6"}) {
    const TextFamily& family = family_named(name);
    const std::string model = model_of(family);
    for (const char* parallelism :
         {"{pipeline_model_parallel_size: 4}", "{pipeline_model_parallel_size: 4, pipeline_schedule: gpipe}",
          "{tensor_model_parallel_size: 4, sequence_parallel: true}"})
      check_job({.model = model.c_str(), .parallelism = parallelism, .training = family.training, .gpus = 4});
    check_job({.model = model.c_str(),
               .parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}",
               .optimizer = "{zero_stage: 3}",
               .training = std::string(family.training) +
                           ", attention: unfused, attention_dropout: 0.2, hidden_dropout: 0.1",
               .more = "recompute: {granularity: selective}\n",
               .gpus = 4});
  }
}

TEST_CASE("packed documents are the same tokens whoever reads them") {
  for (const char* lengths : {"{mean: 3, distribution: uniform, seed: 4}", "{mean: 5}"}) {
    const std::string training = ", documents: " + std::string(lengths);
    check_job({.model = tiny_llama,
               .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
               .training = training,
               .gpus = 8});
    check_job({.model = tiny_gpt,
               .parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}",
               .training = training,
               .gpus = 4,
               .micro_batch_size = 2});
  }
}

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

}  // namespace simrun
