#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>
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

const TextFamily text_families[] = {
    {"gpt2",
     "n_layer: 4, n_embd: 24, n_head: 4, vocab_size: 50, n_positions: 12, attn_pdrop: 0, "
     "resid_pdrop: 0, embd_pdrop: 0"},
    {"gpt",
     "num_layers: 8, hidden_size: 24, num_attention_heads: 4, vocab_size: 50, max_position_embeddings: 12, "
     "hybrid_override_pattern: \"*-*--**-\", attention_dropout: 0, hidden_dropout: 0"},
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
    {"gemma",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, head_dim: 6"},
    {"gemma3_text",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, head_dim: 6, query_pre_attn_scalar: 9, sliding_window: 3, "
     "sliding_window_pattern: 2"},
    {"glm4",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, head_dim: 8"},
    {"olmo",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, clip_qkv: 0.05"},
    {"olmo2",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50"},
    {"olmo3",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, sliding_window: 3"},
    {"seed_oss",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, head_dim: 6, attention_dropout: 0, residual_dropout: 0"},
    {"smollm3",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, no_rope_layers: [1, 0, 0, 1]"},
    {"starcoder2",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, sliding_window: 3"},
    {"cohere",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, use_qk_norm: true, logit_scale: 0.3"},
    {"cohere2",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, sliding_window: 3, sliding_window_pattern: 2"},
    {"falcon", "num_hidden_layers: 4, hidden_size: 24, num_attention_heads: 4, vocab_size: 50"},
    {"phi",
     "num_hidden_layers: 4, hidden_size: 32, intermediate_size: 40, num_attention_heads: 4, vocab_size: 50"},
    {"stablelm",
     "num_hidden_layers: 4, hidden_size: 32, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, use_qkv_bias: true"},
    {"internlm2",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, bias: true"},
    {"granite",
     "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
     "num_key_value_heads: 2, vocab_size: 50, attention_multiplier: 0.3, embedding_multiplier: 5, "
     "residual_multiplier: 0.4, logits_scaling: 3"},
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
  for (const TextFamily& family : text_families)
    if (family.name == name) return family;
  throw std::invalid_argument(name);
}

}  // namespace

TEST_CASE("text families over tensor, pipeline and data ranks compute what one rank does", "[long]") {
  for (const TextFamily& family : text_families) {
    const std::string model = model_of(family);
    check_job({.model = model.c_str(),
               .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                              "sequence_parallel: true}",
               .optimizer = "{zero_stage: 1}",
               .training = family.training,
               .gpus = 8});
  }
}

TEST_CASE("a second loss counts by its weight: 0.3 of a further token's, all of the next sentence's") {
  const auto untrained_loss = [](const char* name) {
    const std::string model = model_of(family_named(name));
    return one_rank({.model = model.c_str()}).loss[0];
  };
  CHECK(untrained_loss("deepseek_v3") == Approx(1.3 * std::log(50)).epsilon(0.01));
  CHECK(untrained_loss("bert") == Approx(std::log(50) + std::log(2)).epsilon(0.01));
}

TEST_CASE("latent attention computes the same with every ZeRO stage, pipeline schedule and recompute",
          "[long]") {
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
        Case{"{tensor_model_parallel_size: 2, sequence_parallel: true}", "{zero_stage: 2}",
             "recompute: {granularity: selective, saved: [fc1, core_attn]}\n", "", 4},
        Case{"{tensor_model_parallel_size: 2}", "{}", "",
             ", attention: unfused, attention_dropout: 0.2, hidden_dropout: 0.1", 4}})
    check_job({model.c_str(), c.parallelism, c.optimizer, c.training, c.more, c.gpus});
}

TEST_CASE("an encoder-decoder computes the same wherever its pipeline is cut", "[long]") {
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

TEST_CASE("documents of two sequences that attend to each other are refused") {
  const TextFamily& family = family_named("t5");
  const std::string model = model_of(family);
  const std::vector<std::string> refused = execution_refusals(
      compile(
          tiny_job({.model = model.c_str(), .training = ", decoder_seq_length: 16, documents: {mean: 3}"})),
      ExecutionDevice::cpu_f64);
  REQUIRE(!refused.empty());
  CHECK(refused.front() ==
        "'cross_attention' (attention) has no CPU kernel yet: training.documents with cross attention");
}

TEST_CASE("frozen parts stay what they were, and what is trained around them is trained alike") {
  for (const char* frozen : {"[embedding]", "[\"layers[0-1]\"]", "[\"layers[1-3].*norm\", \"layers[2].fc1\"]",
                             "[\"layers[0].qkv\", \"layers[0].input_norm\", embedding]"}) {
    const std::string model =
        "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
        "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, frozen: " +
        std::string(frozen) + "}\n";
    check_job({.model = model.c_str(),
               .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                              "sequence_parallel: true}",
               .optimizer = "{zero_stage: 1}",
               .gpus = 8});
    check_job({.model = model.c_str(), .optimizer = "{zero_stage: 3}", .gpus = 2});
  }
}

TEST_CASE("attention sinks belong to the tensor-parallel rank of their heads") {
  const auto with_sinks = [](const TinyJob& of) {
    Job job = tiny_job(of);
    job.model.attention_sinks = true;
    job.model.attention_windows = {0, 3, 0, 3};
    return compile(job);
  };
  const Execution one = checked_run(with_sinks({.model = tiny_llama}));
  const Plan plan = with_sinks({.model = tiny_llama,
                                .parallelism = "{tensor_model_parallel_size: 2, "
                                               "pipeline_model_parallel_size: 2, sequence_parallel: true}",
                                .optimizer = "{zero_stage: 1}",
                                .gpus = 8});
  const Execution run = checked_run(plan);
  check_equal(run, one, 1e-10);
  check_memory(plan, run, false);
  const auto sinks = std::ranges::find(plan.parameters, "attention_sinks", &ModelParameter::name);
  REQUIRE(sinks != plan.parameters.end());
  CHECK(run.gradients.tensors().at(sinks->id).values.size() == 4);
}

TEST_CASE("in f32 text families allocate to the byte what the simulator predicts") {
  for (const char* name : {"deepseek_v3", "t5", "bert", "gpt_neox"}) {
    CAPTURE(name);
    const TextFamily& family = family_named(name);
    const std::string model = model_of(family);
    const TinyJob job{.model = model.c_str(),
                      .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
                      .optimizer = "{zero_stage: 1}",
                      .training = family.training,
                      .gpus = 8};
    const Plan plan = compile(tiny_job(job));
    const Execution run = checked_run(plan, ExecutionDevice::cpu_f32);
    check_memory(plan, run, true);
    CHECK(compare(run.gradients, one_rank(job).gradients, 1e-5).first == "");
  }
}

TEST_CASE("a language model behind images computes what one rank does") {
  const char* model =
      "model: {model_type: llava, text_config: {model_type: llama, num_hidden_layers: 2, hidden_size: 24, "
      "intermediate_size: 40, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50}, "
      "vision_config: {image_size: 8, patch_size: 4, num_hidden_layers: 2, hidden_size: 16, "
      "intermediate_size: 20, num_attention_heads: 2}}\n";
  for (const char* parallelism :
       {"{}", "{tensor_model_parallel_size: 2}", "{pipeline_model_parallel_size: 2}"})
    check_job({.model = model, .parallelism = parallelism, .gpus = 4});
}

TEST_CASE("text families over parts of the sequence compute what one rank does", "[long]") {
  for (const char* name : {"bloom", "gemma2", "deepseek_v2", "deepseek_v3", "gpt_neox"}) {
    const TextFamily& family = family_named(name);
    const std::string model = model_of(family);
    for (const std::string exchange : {"p2p", "all_gather", "a2a"}) {
      if (exchange == "a2a" && family.name == std::string("gemma2")) continue;  // one kv head on each rank
      check_job({.model = model.c_str(),
                 .parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true, "
                                "context_parallel_size: 2, cp_comm_type: " +
                                exchange + "}",
                 .training = family.training,
                 .gpus = 4});
    }
  }
}

TEST_CASE("ranks that share heads further have the sinks of theirs") {
  const auto with_sinks = [](const TinyJob& of) {
    Job job = tiny_job(of);
    job.model.attention_sinks = true;
    return compile(job);
  };
  const Execution one = checked_run(with_sinks({.model = tiny_gpt}));
  const Plan plan = with_sinks({.model = tiny_gpt,
                                .parallelism = "{tensor_model_parallel_size: 2, context_parallel_size: 2, "
                                               "cp_comm_type: a2a}",
                                .gpus = 4});
  check_equal(checked_run(plan), one, 1e-10);
}

TEST_CASE("gpt-oss and Grok, sinks and caps beside experts, compute what one rank does") {
  for (
      const char* model :
      {"model: {model_type: gpt_oss, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 20, head_dim: "
       "6, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, num_local_experts: 4, "
       "num_experts_per_tok: 2, sliding_window: 3, router_aux_loss_coef: 0}\n",
       "model: {model_type: grok-1, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 20, "
       "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, num_experts: 4, num_experts_per_tok: "
       "2, max_attn_value: 0.8, router_aux_loss_coef: 0}\n"})
    check_job({.model = model,
               .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                              "expert_model_parallel_size: 2, sequence_parallel: true}",
               .optimizer = "{zero_stage: 1}",
               .gpus = 8});
}

}  // namespace simrun
