#include "tests/backend/scalar_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

#include "models/philox.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/expert_jobs.h"

// One training step of the product on one rank and the same step by an implementation that shares nothing
// with it but the initial values and the text.
namespace simrun {
namespace {

// Word `ahead` behind each position of 8 sequences, as INPUT defines it (backend/operations.h).
ScalarText text(const char* name, std::int64_t length, std::int64_t ahead) {
  const RandomStream stream(ExecuteOptions{}.training.seed, name, 0);
  ScalarText samples(8);
  for (std::int64_t sample = 0; sample < 8; ++sample)
    for (std::int64_t t = 0; t < length; ++t)
      samples[static_cast<std::size_t>(sample)].push_back(stream.word(sample * (length + 1) + t + ahead) %
                                                          50);
  return samples;
}

// One step of the product, and of the scalars from the same initial values.
void check_against_scalars(
    const TinyJob& of,
    const std::function<ScalarStep(const ModelConfig&, const ScalarParameters&)>& scalars) {
  const Job job = tiny_job(of);
  const Plan plan = compile(job);
  const Execution run = checked_run(plan, ExecutionDevice::cpu_f64, 1);

  ScalarParameters parameters;
  for (const ModelParameter& parameter : plan.parameters) {
    const InitialValues initial(parameter, ExecuteOptions{}.training.seed);
    std::vector<double>& values = parameters[{parameter.layer, parameter.name}];
    for (std::size_t i = 0; i < run.gradients.tensors().at(parameter.id).values.size(); ++i)
      values.push_back(initial(static_cast<std::int64_t>(i)));
  }
  const ScalarStep reference = scalars(job.model, parameters);

  CHECK(run.loss[0] == Approx(reference.loss).epsilon(1e-12));
  for (const ModelParameter& parameter : plan.parameters) {
    CAPTURE(parameter.layer, parameter.name);
    if (parameter.name == "selection_bias") continue;  // has no gradient
    const std::vector<double>& ours = run.gradients.tensors().at(parameter.id).values;
    const std::vector<double>& theirs = reference.gradients.at({parameter.layer, parameter.name});
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      apart += (ours[i] - theirs[i]) * (ours[i] - theirs[i]);
      size += theirs[i] * theirs[i];
    }
    CHECK(size > 0);
    CHECK(std::sqrt(apart) <= 1e-10 * std::sqrt(size));
  }
}

void check_decoder(const char* model) {
  check_against_scalars({model}, [](const ModelConfig& config, const ScalarParameters& parameters) {
    return scalar_step(config, parameters, text("text", 8, 0), text("text", 8, 1));
  });
}

}  // namespace

TEST_CASE("a step of a small GPT-2 is what its formulas say, scalar by scalar") { check_decoder(tiny_gpt); }

TEST_CASE("a step of a small Llama is what its formulas say, scalar by scalar") {
  check_decoder(tiny_llama);
  check_decoder(
      "model: {model_type: llama, num_hidden_layers: 1, hidden_size: 24, intermediate_size: 40, "
      "num_attention_heads: 4, vocab_size: 50, rms_norm_eps: 0.01, rope_theta: 50}\n");
}

TEST_CASE("steps of OLMo 2, Qwen3, SmolLM3, GLM-4's norms and Granite are what their formulas say",
          "[long]") {
  const std::string shape =
      "num_hidden_layers: 2, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
      "num_key_value_heads: 2, vocab_size: 50";
  for (const char* family : {"olmo2", "qwen3, head_dim: 6", "smollm3, no_rope_layer_interval: 2",
                             "glm4, head_dim: 6, "
                             "partial_rotary_factor: 1, attention_bias: false",
                             "granite, attention_multiplier: 0.3", "olmo, clip_qkv: 0.05"}) {
    CAPTURE(family);
    check_decoder(("model: {model_type: " + std::string(family) + ", " + shape + "}\n").c_str());
  }
}

TEST_CASE("steps of families with attention and MLP side by side are what their formulas say", "[long]") {
  const std::string shape =
      ", num_hidden_layers: 2, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
      "num_key_value_heads: 2, vocab_size: 50";
  const std::string of_falcon =
      "falcon, num_hidden_layers: 2, hidden_size: 24, num_attention_heads: 4, vocab_size: 50";
  for (const std::string& family :
       {"cohere, logit_scale: 0.3" + shape, "cohere, use_qk_norm: true" + shape,
        "cohere2, sliding_window: 3, sliding_window_pattern: 2" + shape, of_falcon,
        of_falcon + ", new_decoder_architecture: true, num_kv_heads: 2, tie_word_embeddings: false",
        of_falcon + ", parallel_attn: false, multi_query: false, bias: true", "phi" + shape,
        "stablelm, partial_rotary_factor: 0.7, use_qkv_bias: true" + shape,
        "stablelm, use_parallel_residual: true, qk_layernorm: true" + shape}) {
    CAPTURE(family);
    check_decoder(("model: {model_type: " + family + "}\n").c_str());
  }
}

TEST_CASE("steps with Granite's factors and Gemma 3's two rotary bases are what their formulas say",
          "[long]") {
  const std::string shape =
      ", num_hidden_layers: 2, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, "
      "num_key_value_heads: 2, vocab_size: 50";
  for (const std::string& family :
       {"granite, attention_multiplier: 0.3, embedding_multiplier: 5, residual_multiplier: 0.4, "
        "logits_scaling: 3, attention_bias: true" +
            shape,
        "gemma3_text, head_dim: 6, sliding_window: 3, sliding_window_pattern: 2, rope_theta: 500, "
        "rope_local_base_freq: 20, query_pre_attn_scalar: 9" +
            shape}) {
    CAPTURE(family);
    check_decoder(("model: {model_type: " + family + "}\n").c_str());
  }
}

TEST_CASE("a step of latent attention is what its formulas say, scalar by scalar", "[long]") {
  for (const char* queries : {"", ", q_lora_rank: 10"}) {
    const std::string model =
        "model: {model_type: deepseek_v2, num_hidden_layers: 2, hidden_size: 24, intermediate_size: 40, "
        "num_attention_heads: 4, vocab_size: 50, kv_lora_rank: 12, qk_nope_head_dim: 6, qk_rope_head_dim: 4, "
        "v_head_dim: 5, n_routed_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 8, "
        "first_k_dense_replace: 2" +
        std::string(queries) + "}\n";
    check_decoder(model.c_str());
  }
}

TEST_CASE("a step of a small T5 is what its formulas say, scalar by scalar") {
  const char* model =
      "model: {model_type: t5, num_layers: 2, d_model: 12, d_kv: 5, d_ff: 20, num_heads: 2, vocab_size: 50, "
      "dropout_rate: 0, relative_attention_num_buckets: 8, relative_attention_max_distance: 6}\n";
  check_against_scalars({.model = model, .training = ", decoder_seq_length: 6"},
                        [](const ModelConfig& config, const ScalarParameters& parameters) {
                          return scalar_t5_step(config, parameters, text("source text", 8, 0),
                                                text("text", 6, 0), text("text", 6, 1));
                        });
}

TEST_CASE("a step of models with experts is what their formulas say, scalar by scalar", "[long]") {
  for (const char* model : {tiny_mixtral, tiny_qwen, tiny_deepseek, tiny_dbrx, tiny_llama4}) {
    CAPTURE(model);
    check_decoder(model);
  }
  check_against_scalars({.model = tiny_switch, .more = "moe: {capacity_factor: 0.75}\n"},
                        [](const ModelConfig& config, const ScalarParameters& parameters) {
                          return scalar_step(config, parameters, text("text", 8, 0), text("text", 8, 1),
                                             0.75);
                        });
}

}  // namespace simrun
