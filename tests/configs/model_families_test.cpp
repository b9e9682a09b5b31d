#include <algorithm>
#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "small_job.h"

// config.json as it is published, of families that came with the models of 2024 and 2025.
using namespace simrun;
using namespace simrun::test;

namespace {

std::string job_of(const std::string& model) {
  return "simrun: 1\nmodel: " + model + R"(
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}
cluster: {from: dgx_h100, nodes: 1}
)";
}

std::string family(const std::string& model_type, const std::string& more = "") {
  return "{model_type: " + model_type +
         ", num_hidden_layers: 4, hidden_size: 64, intermediate_size: 96, num_attention_heads: 4, "
         "num_key_value_heads: 2, vocab_size: 512" +
         (more.empty() ? "" : ", ") + more + "}";
}

std::string message(const std::string& model) { return problems_of(job_of(model)).at(0).message; }

}  // namespace

TEST_CASE("MiniMax-M2's published config.json is read: its weights' quantization is not training's") {
  const Job job = load(job_of(R"({"architectures": ["MiniMaxM2ForCausalLM"], "attention_dropout": 0.0,
  "attn_type_list": [1, 1], "auto_map": {"AutoConfig": "configuration_minimax_m2.MiniMaxM2Config"},
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 1536,
  "layernorm_full_attention_beta": 1.0, "max_position_embeddings": 196608, "mlp_intermediate_size": 8192,
  "model_type": "minimax_m2", "mtp_transformer_layers": 1, "num_attention_heads": 48,
  "num_experts_per_tok": 8, "num_hidden_layers": 2, "num_key_value_heads": 8, "num_local_experts": 256,
  "num_mtp_modules": 3, "qk_norm_type": "per_layer", "quantization_config": {"quant_method": "fp8"},
  "rms_norm_eps": 1e-06, "rope_theta": 5000000, "rotary_dim": 64, "router_aux_loss_coef": 0.001,
  "scoring_func": "sigmoid", "shared_intermediate_size": 0, "sliding_window": null,
  "tie_word_embeddings": false, "use_cache": true, "use_mtp": true, "use_qk_norm": true,
  "use_routing_bias": true, "vocab_size": 200064})"));
  CHECK(job.model.qk_norm == QkNorm::of_all_heads);
  CHECK(job.model.rotary_share == 0.5);
  CHECK(job.model.experts.selection_bias);
  CHECK(job.model.experts.score == RouterScore::sigmoid);
  CHECK(message(family("minimax_m2",
                       "num_local_experts: 8, num_experts_per_tok: 2, head_dim: 16, "
                       "rotary_dim: 64"))
            .find("64") != std::string::npos);
  CHECK(
      message(family("minimax_m2", "num_local_experts: 8, num_experts_per_tok: 2, attn_type_list: [1, 0]")) ==
      "linear attention is not supported yet");
}

TEST_CASE("SmolLM3's layers without rotary positions are every fourth, or those that are listed") {
  const auto without = [](const std::string& more) {
    return load(job_of(family("smollm3", more))).model.layers_without_rope;
  };
  CHECK(without("") == std::vector<bool>{false, false, false, true});
  CHECK(without("no_rope_layer_interval: 2") == std::vector<bool>{false, true, false, true});
  CHECK(without("no_rope_layers: [0, 1, 1, 0]") == std::vector<bool>{true, false, false, true});
  CHECK(message(family("smollm3", "no_rope_layers: [0, 1]")) == "no_rope_layers has 2 entries for 4 layers");
  CHECK(message(family("smollm3", "no_rope_layers: [1, 2, 0, 1]")).find("neither 0 nor 1") !=
        std::string::npos);
  // What it prints is the same job.
  const LoadedJob loaded =
      load_job_text(job_of(family("smollm3", "no_rope_layers: [0, 1, 1, 0]")), "job.yaml", with_presets());
  CHECK(loaded.effective_yaml.find("no_rope_layers: [0, 1, 1, 0]") != std::string::npos);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job.model == loaded.job.model);
}

TEST_CASE("ERNIE 4.5's experts end where the config says, and its further token is predicted") {
  const auto experts = [](const std::string& more) {
    return load(job_of(
                    family("ernie4_5_moe", "moe_num_experts: 8, moe_k: 2, moe_intermediate_size: 32" + more)))
        .model;
  };
  CHECK(experts("").experts.layers == std::vector<bool>{false, true, true, true});
  CHECK(experts(", moe_layer_end_index: 2").experts.layers == std::vector<bool>{false, true, true, false});
  CHECK(experts(", moe_layer_end_index: -1").experts.layers == std::vector<bool>{false, true, true, true});
  CHECK(experts(", num_nextn_predict_layers: 1").num_nextn_predict_layers == 1);
  CHECK(experts("").experts.shared_ffn_hidden_size == 64);  // two of 32
}

TEST_CASE("OLMo 3 and Gemma 3 have windows in all but the last of four and of six layers") {
  const auto windows = [](const std::string& model) { return load(job_of(model)).model.attention_windows; };
  CHECK(windows(family("olmo3", "sliding_window: 8")) == std::vector<std::int64_t>{8, 8, 8, 0});
  CHECK(windows(family("gemma3_text", "head_dim: 16, sliding_window: 8, sliding_window_pattern: 2")) ==
        std::vector<std::int64_t>{8, 0, 8, 0});
  CHECK(windows(family("gemma3_text", "head_dim: 16, sliding_window: 8")) ==
        std::vector<std::int64_t>{8, 8, 8, 8});
  CHECK(windows(family("gemma3_text",
                       "head_dim: 16, sliding_window: 8, layer_types: [full_attention, "
                       "sliding_attention, full_attention, full_attention]")) ==
        std::vector<std::int64_t>{0, 8, 0, 0});
}

TEST_CASE("what Hugging Face's newer map says of rotary positions is read, by kind of layer too") {
  const auto model = [](const std::string& of) { return load(job_of(of)).model; };
  CHECK(model(family("glm4", "head_dim: 16")).rotary_share == 0.5);
  CHECK(model(family("glm4", "head_dim: 16, rope_parameters: {rope_theta: 500, partial_rotary_factor: 0.25}"))
            .rotary_share == 0.25);
  CHECK(model(family("gemma3_text",
                     "head_dim: 16, sliding_window: 8, rope_parameters: {full_attention: "
                     "{rope_theta: 500}, sliding_attention: {rope_theta: 10000}}"))
            .rope_base == 500);
}

TEST_CASE("families whose default of key-value heads is not the number of heads want the key") {
  for (const char* type : {"gemma3_text", "glm4", "seed_oss", "smollm3", "starcoder2", "ernie4_5", "qwen3"}) {
    CAPTURE(type);
    std::string model = family(type, "sliding_window: 8");
    model.erase(model.find("num_key_value_heads: 2, "), 24);
    const auto problems = problems_of(job_of(model));
    CHECK(std::ranges::any_of(problems, [](const Diagnostic& problem) {
      return problem.message == "missing required key 'num_key_value_heads' in 'model'";
    }));
  }
}
