#include <algorithm>
#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::string job_with(const std::string& model) {
  return "simrun: 1\nmodel: " + model + R"(
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}
cluster: {from: dgx_h100, nodes: 1}
)";
}

// The config.json of each repository, as it is there but for token ids, paths and the rotary factors.
const std::string switch_json = R"({"add_router_probs": false,
  "architectures": ["SwitchTransformersForConditionalGeneration"], "d_ff": 3072, "d_kv": 64, "d_model": 768,
  "decoder_sparse_step": 2, "dense_act_fn": "relu", "dropout_rate": 0.1, "encoder_sparse_step": 2,
  "expert_capacity": 64, "feed_forward_proj": "relu", "initializer_factor": 1.0, "is_encoder_decoder": true,
  "is_gated_act": false, "layer_norm_epsilon": 1e-06, "model_type": "switch_transformers",
  "num_decoder_layers": 12, "num_experts": 64, "num_heads": 12, "num_layers": 12, "num_selected_experts": 1,
  "num_sparse_decoder_layers": 6, "num_sparse_encoder_layers": 6, "relative_attention_max_distance": 128,
  "relative_attention_num_buckets": 32, "router_aux_loss_coef": 0.001, "router_bias": false,
  "router_dtype": "float32", "router_ignore_padding_tokens": false, "router_jitter_noise": 0.01,
  "router_type": "tokens_masked", "router_z_loss_coef": 0.001, "torch_dtype": "float32", "use_cache": true,
  "vocab_size": 32128})";
const std::string phimoe_json = R"({"architectures": ["PhiMoEForCausalLM"], "attention_bias": true,
  "attention_dropout": 0.0, "hidden_act": "silu", "hidden_dropout": 0.0, "hidden_size": 4096,
  "initializer_range": 0.02, "input_jitter_noise": 0.01, "intermediate_size": 6400, "lm_head_bias": true,
  "max_position_embeddings": 131072, "model_type": "phimoe", "num_attention_heads": 32,
  "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16,
  "original_max_position_embeddings": 4096, "output_router_logits": false, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "rope_theta": 10000.0, "router_aux_loss_coef": 0.0, "router_jitter_noise": 0.01,
  "sliding_window": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
  "vocab_size": 32064})";

std::string layers_of(const ModelConfig& model) {
  std::string text;
  for (const bool experts : model.experts.layers) text += experts ? 'e' : '-';
  return text;
}

std::string message(const std::string& model) {
  const std::vector<Diagnostic> problems = problems_of(job_with(model));
  return problems.empty() ? "accepted" : problems.front().message + " / " + problems.front().hint;
}

}  // namespace

TEST_CASE("Switch Transformer: T5 with experts in every second layer of both stacks, one for a token") {
  const LoadedJob loaded = load_job_text(job_with(switch_json), "job.yaml", with_presets());
  const ModelConfig& model = loaded.job.model;
  CHECK(layers_of(model) == "-e-e-e-e-e-e-e-e-e-e-e-e");
  CHECK(model.num_layers == 24);
  CHECK(model.experts.count == 64);
  CHECK(model.experts.topk == 1);
  CHECK(model.experts.ffn_hidden_size == 3072);
  CHECK(model.ffn_hidden_size == 3072);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}

TEST_CASE("Switch Transformer: how many layers have experts, stack by stack") {
  const auto with = [](const std::string& keys) {
    return "{model_type: switch_transformers, num_layers: 4, num_decoder_layers: 3, d_model: 64, d_kv: 16, "
           "d_ff: "
           "128, num_heads: 4, vocab_size: 512, " +
           keys + "}";
  };
  const auto layers = [&](const std::string& keys) { return layers_of(load(job_with(with(keys))).model); };
  CHECK(layers("num_sparse_encoder_layers: 2, num_sparse_decoder_layers: 0") == "-e-e---");
  CHECK(layers("num_sparse_encoder_layers: 4, num_sparse_decoder_layers: 3") == "eeeeeee");
  CHECK(layers("num_sparse_encoder_layers: 1, num_sparse_decoder_layers: 1") == "-e---e-");
  CHECK(load(job_with(with("num_sparse_encoder_layers: 4"))).model.ffn_hidden_size == 0);
  CHECK(message(with("num_sparse_decoder_layers: 4")) == "4 of 3 layers have experts / at most 3.");
  CHECK(message(with("num_experts: 4, num_selected_experts: 5")) ==
        "a token goes to 5 of 4 experts / at most 4.");
}

TEST_CASE("Phi-3.5-MoE: Mixtral with layer norms, and biases of attention and of the head") {
  const LoadedJob loaded = load_job_text(job_with(phimoe_json), "job.yaml", with_presets());
  const ModelConfig& model = loaded.job.model;
  CHECK(model.normalization == Normalization::layer_norm);
  CHECK(model.norm_bias);
  CHECK(model.qkv_bias);
  CHECK(model.projection_bias);
  CHECK(model.output_bias);
  CHECK(model.experts.topk == 2);
  CHECK(model.activation == Activation::swiglu);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
  CHECK_FALSE(load(job_with(edited(phimoe_json, "\"lm_head_bias\": true", "\"lm_head_bias\": false")))
                  .model.output_bias);
}

TEST_CASE("GShard: experts in every second layer, counted through both stacks, two for a token") {
  const ModelConfig model = load(job_with("{from: gshard-600b}")).model;
  CHECK(layers_of(model).substr(0, 4) == "e-e-");
  CHECK(std::ranges::count(model.experts.layers, true) == 18);
  CHECK(model.experts.layers.size() == 36);
  CHECK(model.experts.topk == 2);
}
