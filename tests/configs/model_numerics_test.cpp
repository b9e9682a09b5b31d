#include <catch2/catch.hpp>
#include <cmath>

#include "tests/configs/small_job.h"

// Keys of a config.json that change no cost and all numbers: norms' epsilon, the base of rotary angles, the
// factor of scores.
namespace simrun::test {
namespace {

std::string job_with_numerics(const std::string& model) {
  return "simrun: 1\nmodel: " + model + R"(
training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 8, precision: bf16}
cluster: {from: dgx_h100, nodes: 1}
)";
}
const std::string llama_shape =
    "num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, "
    "num_key_value_heads: 4, vocab_size: 256";

ModelConfig model(const std::string& family, const std::string& keys) {
  return load(job_with_numerics("{model_type: " + family + ", " + keys + "}")).model;
}

}  // namespace

TEST_CASE("epsilon and rotary base are the config's, or what the family's code takes without") {
  const ModelConfig written = model("llama", llama_shape + ", rms_norm_eps: 1.0e-3, rope_theta: 500000.0");
  CHECK(written.norm_epsilon == 1e-3);
  CHECK(written.rope_base == 500000);
  CHECK(model("llama", llama_shape).norm_epsilon == 1e-6);
  CHECK(model("phi3", llama_shape).norm_epsilon == 1e-5);
  CHECK(model("nemotron", llama_shape + ", norm_eps: 0.5").norm_epsilon == 0.5);
  CHECK(model("mixtral", llama_shape + ", num_local_experts: 4, num_experts_per_tok: 2").rope_base == 1e6);
  // Newer configs keep the base in a map.
  CHECK(model("qwen3", llama_shape + ", rope_parameters: {rope_type: default, rope_theta: 7777}").rope_base ==
        7777);
  CHECK(load(job_with_numerics("{from: llama3-8b}")).model.rope_base == 500000);
  const std::string bert =
      "num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, "
      "vocab_size: 256, max_position_embeddings: 64";
  CHECK(model("bert", bert).norm_epsilon == 1e-12);
  CHECK(model("bert", bert + ", layer_norm_eps: 1.0e-5").norm_epsilon == 1e-5);
}

TEST_CASE("what scores are multiplied by, and where biases by distance end") {
  const ModelConfig gemma =
      model("gemma2", llama_shape + ", head_dim: 16, sliding_window: 8, query_pre_attn_scalar: 144");
  CHECK(gemma.attention_scale == Approx(1.0 / 12));
  const std::string mpt = "n_layers: 2, d_model: 64, n_heads: 4, vocab_size: 256";
  CHECK(model("mpt", mpt).alibi_bias_max == 8);
  const ModelConfig other = model("mpt", mpt + ", attn_config: {alibi_bias_max: 4, softmax_scale: 0.5}");
  CHECK(other.alibi_bias_max == 4);
  CHECK(other.attention_scale == 0.5);
}

TEST_CASE("a printed config keeps them") {
  for (const char* keys : {", rms_norm_eps: 1.0e-3, rope_theta: 12345.5",
                           ", rope_parameters: {rope_type: default, rope_theta: 7777}", ""}) {
    const LoadedJob loaded = load_job_text(
        job_with_numerics("{model_type: llama, " + llama_shape + keys + "}"), "job.yaml", with_presets());
    CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
  }
}

TEST_CASE("an epsilon below 0 and a base below 1 are refused where they stand") {
  const std::string text =
      refusal(job_with_numerics("{model_type: llama, " + llama_shape + ", rms_norm_eps: -1, rope_theta: 0}"));
  CHECK_THAT(text, Catch::Contains("'model.rms_norm_eps'"));
  CHECK_THAT(text, Catch::Contains("'model.rope_theta'"));
  CHECK_THAT(text, Catch::Contains("2 errors"));
}

TEST_CASE("latent attention's rotated part is made of pairs") {
  CHECK_THAT(refusal(job_with_numerics(
                 "{model_type: deepseek_v2, " + llama_shape +
                 ", kv_lora_rank: 16, qk_nope_head_dim: 8, qk_rope_head_dim: 5, v_head_dim: 8, "
                 "n_routed_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 8}")),
             Catch::Contains("qk_rope_head_dim 5 is odd, and rope turns pairs of elements\n") &&
                 Catch::Contains("hint: 6 has pairs."));
}

}  // namespace simrun::test
