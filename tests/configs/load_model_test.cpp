#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::string job_with_model(const std::string& model) {
  return "simrun: 1\nmodel: " + model + R"(
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}
cluster: {from: dgx_h100, nodes: 1}
)";
}

const std::string gpt2_json = R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
  "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
  "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_inner": null, "resid_pdrop": 0.1,
  "summary_activation": null, "task_specific_params": {"text-generation": {"do_sample": true}},
  "vocab_size": 50257})";

const std::string mistral_json = R"({"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0,
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0", "use_cache": true, "vocab_size": 32768})";

const std::string qwen2_json = R"({"attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 3584,
  "intermediate_size": 18944, "max_window_layers": 28, "model_type": "qwen2", "num_attention_heads": 28,
  "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072, "tie_word_embeddings": false,
  "use_mrope": false, "use_sliding_window": false, "vocab_size": 152064})";

}  // namespace

TEST_CASE("GPT-2's config.json gives its published shape") {
  const Job job = load(job_with_model(gpt2_json));
  const ModelConfig& model = job.model;
  CHECK(model.num_layers == 12);
  CHECK(model.hidden_size == 768);
  CHECK(model.ffn_hidden_size == 3072);  // 4 x 768
  CHECK(model.num_key_value_heads == 12);
  CHECK(model.head_dim == 64);
  CHECK(model.max_position_embeddings == 1024);
  CHECK(model.tie_word_embeddings);
  CHECK(model.mlp_bias);
  CHECK(model.projection_bias);
  CHECK(model.qkv_bias);
  CHECK(model.normalization == Normalization::layer_norm);
  CHECK(job.training.attention_dropout == 0.1);
  CHECK(job.training.hidden_dropout == 0.1);
}

TEST_CASE("Llama, Mistral and Qwen2 differ in the query, key and value biases") {
  const Job mistral = load(job_with_model(mistral_json));
  CHECK(mistral.model.normalization == Normalization::rms_norm);
  CHECK(mistral.model.activation == Activation::swiglu);
  CHECK(mistral.model.position_embedding == PositionEmbedding::rope);
  CHECK(mistral.model.max_position_embeddings == 0);  // no table
  CHECK(mistral.model.head_dim == 128);
  CHECK_FALSE(mistral.model.qkv_bias);
  CHECK_FALSE(mistral.model.tie_word_embeddings);
  CHECK(mistral.training.hidden_dropout == 0);
  const Job qwen = load(job_with_model(qwen2_json));
  CHECK(qwen.model.qkv_bias);
  CHECK_FALSE(qwen.model.projection_bias);
  CHECK_FALSE(qwen.model.mlp_bias);
  const ModelConfig llama = load(job_with_model("{from: llama3-70b, attention_bias: true}")).model;
  CHECK(llama.qkv_bias);
  CHECK(llama.projection_bias);
  CHECK_FALSE(llama.mlp_bias);
}

TEST_CASE("what a model has and simrun does not is refused where it stands") {
  const auto message = [](const std::string& model) {
    return problems_of(job_with_model(model)).at(0).message;
  };
  CHECK(message(edited(qwen2_json, "\"use_mrope\": false", "\"use_mrope\": true")) ==
        "'use_mrope: true' is not supported yet");
  CHECK(message("{from: llama3-8b, hidden_act: gelu}") ==
        "'gelu' for 'model.hidden_act' is not supported yet");
  CHECK(message(edited(gpt2_json, "\"embd_pdrop\": 0.1", "\"embd_pdrop\": 0.2")) ==
        "a dropout of the embedding unlike resid_pdrop is not supported yet");
  CHECK(message(edited(gpt2_json, "\"n_ctx\": 1024", "\"n_ctx\": 512")) ==
        "n_ctx 512 and n_positions 1024 must agree");
  CHECK(message(edited(gpt2_json, "\"n_ctx\": 1024, ", "\"add_cross_attention\": true, ")) ==
        "'add_cross_attention: true' is not supported yet");
  CHECK(message("{model_type: jamba}") == "'jamba' for 'model.model_type' is not supported yet");
  CHECK(message("{model_type: gemma3}") ==
        "gemma3's images are not modelled; its text_config is model_type: gemma3_text");
  CHECK(message("{model_type: llama4}") ==
        "llama4's images are not modelled; its text_config is model_type: llama4_text");
  CHECK(problems_of(job_with_model("{model_type: llama4}")).at(0).hint.starts_with("one of bert, bloom, "));
  CHECK(message("{model_type: mistral, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 64, "
                "num_attention_heads: 4, vocab_size: 64}") ==
        "missing required key 'num_key_value_heads' in 'model'");
}

TEST_CASE("a learned position table that is too short is refused; rotary positions have none") {
  const std::string longer = edited(job_with_model(gpt2_json), "seq_length: 1024", "seq_length: 2048");
  CHECK(problems_of(longer).at(0).message == "seq_length 2048 is longer than the model's 1024 positions");
  CHECK(load(edited(job_with_model("{from: llama3-8b}"), "seq_length: 1024", "seq_length: 16384"))
            .training.seq_length == 16384);
}

TEST_CASE("Megatron-LM's names describe the same models") {
  const ModelConfig llama = load(job_with_model("{from: llama3-8b}")).model;
  ModelConfig gpt =
      load(job_with_model(R"({model_type: gpt, num_layers: 32, hidden_size: 4096, ffn_hidden_size: 14336,
    num_attention_heads: 32, num_query_groups: 8, vocab_size: 128256,
    untie_embeddings_and_output_weights: true,
    swiglu: true, normalization: RMSNorm, position_embedding_type: rope, disable_bias_linear: true,
    attention_dropout: 0, hidden_dropout: 0, norm_epsilon: 1.0e-5, rotary_base: 500000})"))
          .model;
  CHECK(gpt.model_type == "gpt");
  gpt.model_type = "llama";
  CHECK(gpt == llama);
}

TEST_CASE("training's dropouts override the model's") {
  const Job job =
      load(edited(job_with_model(gpt2_json), "precision: bf16", "precision: bf16, hidden_dropout: 0"));
  CHECK(job.training.hidden_dropout == 0);
  CHECK(job.training.attention_dropout == 0.1);
}
