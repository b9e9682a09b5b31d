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

// The config.json of each repository, as it is there but for token ids and paths.
const std::string gpt_neox_json = R"({"architectures": ["GPTNeoXForCausalLM"],
  "attention_probs_dropout_prob": 0, "hidden_act": "gelu_fast", "hidden_dropout_prob": 0, "hidden_size": 6144,
  "initializer_range": 0.02, "intermediate_size": 24576, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 64,
  "num_hidden_layers": 44, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
  "torch_dtype": "float16", "use_cache": true, "vocab_size": 50432})";
const std::string opt_json = R"({"activation_dropout": 0.0, "activation_function": "relu",
  "architectures": ["OPTForCausalLM"], "attention_dropout": 0.0, "do_layer_norm_before": true, "dropout": 0.1,
  "ffn_dim": 8192, "hidden_size": 2048, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
  "model_type": "opt", "num_attention_heads": 32, "num_hidden_layers": 24, "prefix": "</s>",
  "torch_dtype": "float16", "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": 2048})";
const std::string bloom_json = R"({"apply_residual_connection_post_layernorm": false,
  "attention_dropout": 0.0, "architectures": ["BloomForCausalLM"], "attention_softmax_in_fp32": true,
  "bias_dropout_fusion": true, "hidden_dropout": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
  "masked_softmax_fusion": true, "model_type": "bloom", "n_embed": 14336, "n_inner": null, "n_layer": 70,
  "num_attention_heads": 112, "offset_alibi": 100, "pretraining_tp": 4, "seq_length": 2048,
  "skip_bias_add": true, "skip_bias_add_qkv": false, "slow_but_exact": false, "use_cache": true,
  "vocab_size": 250880})";
const std::string gemma2_json = R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid",
  "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "gemma2",
  "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8, "query_pre_attn_scalar": 256,
  "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "sliding_window_size": 4096,
  "use_cache": true, "vocab_size": 256000})";
const std::string phi3_json = R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "embd_pdrop": 0.0, "hidden_act": "silu", "hidden_size": 3072,
  "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "phi3",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "original_max_position_embeddings": 4096, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": false, "use_cache": true,
  "vocab_size": 32064})";
const std::string qwen3_json = R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2560,
  "initializer_range": 0.02, "intermediate_size": 9728, "max_position_embeddings": 40960,
  "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
  "sliding_window": null, "tie_word_embeddings": true, "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";
const std::string mpt_json = R"({"architectures": ["MPTForCausalLM"], "attn_config": {"alibi": true,
  "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention",
  "attn_uses_sequence_id": false, "clip_qkv": null, "prefix_lm": false, "qk_ln": false,
  "softmax_scale": null}, "d_model": 4096, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4,
  "init_config": {"emb_init_std": null, "name": "kaiming_normal_"}, "init_device": "cpu",
  "learned_pos_emb": true, "logit_scale": null, "max_seq_len": 2048, "model_type": "mpt", "n_heads": 32,
  "n_layers": 32, "no_bias": true, "norm_type": "low_precision_layernorm", "resid_pdrop": 0,
  "tokenizer_name": "EleutherAI/gpt-neox-20b", "use_cache": false, "verbose": 0, "vocab_size": 50432})";

std::string message(const std::string& model) {
  const std::vector<Diagnostic> problems = problems_of(job_with(model));
  return problems.empty() ? "accepted" : problems.front().message;
}

}  // namespace

TEST_CASE("GPT-NeoX: parallel attention and MLP, a quarter of each head rotated, biases") {
  const ModelConfig model = load(job_with(gpt_neox_json)).model;
  CHECK(model.parallel_residual);
  CHECK(model.rotary_share == 0.25);
  CHECK(model.head_dim == 96);
  CHECK(model.position_embedding == PositionEmbedding::rope);
  CHECK(model.normalization == Normalization::layer_norm);
  CHECK(model.qkv_bias);
  CHECK(model.mlp_bias);
  CHECK_FALSE(model.tie_word_embeddings);
  CHECK(load(job_with(gpt_neox_json)).training.hidden_dropout == 0);
}

TEST_CASE("OPT: GPT-3's layer with ReLU; its dropout is not behind the embedding") {
  const Job job = load(job_with(opt_json));
  CHECK(job.model.activation == Activation::relu);
  CHECK(job.model.max_position_embeddings == 2048);
  CHECK(job.model.reserved_positions == 2);
  CHECK(job.model.tie_word_embeddings);
  CHECK(job.training.hidden_dropout == 0.1);
  CHECK(job.training.attention_dropout == 0);
  CHECK_FALSE(job.model.embedding_dropout);
  CHECK(load(job_with(edited(opt_json, "\"relu\"", "\"gelu\""))).model.activation == Activation::gelu);
}

TEST_CASE(
    "BLOOM: ALiBi, a norm behind the embedding; n_embed or hidden_size, n_head or num_attention_heads") {
  const ModelConfig model = load(job_with(bloom_json)).model;
  CHECK(model.position_embedding == PositionEmbedding::alibi);
  CHECK(model.embedding_norm);
  CHECK(model.ffn_hidden_size == 4 * 14336);
  CHECK(model.head_dim == 128);
  CHECK(model.tie_word_embeddings);
  CHECK(load(job_with(edited(edited(bloom_json, "n_embed", "hidden_size"), "num_attention_heads", "n_head")))
            .model == model);
  CHECK(message(edited(bloom_json, "\"n_embed\": 14336", "\"n_embed\": 14336, \"hidden_size\": 4096")) ==
        "n_embed 14336 and hidden_size 4096 must agree");
}

TEST_CASE("Gemma 2: sandwich norms, GeGLU, soft caps, even layers with a window of 4096") {
  const ModelConfig model = load(job_with(gemma2_json)).model;
  CHECK(model.norm_placement == NormPlacement::sandwich);
  CHECK(model.activation == Activation::geglu);
  CHECK(model.attention_soft_cap == 50);
  CHECK(model.logit_soft_cap == 30);
  CHECK(model.embedding_multiplier == Approx(59.866518));  // sqrt(3584)
  CHECK(model.tie_word_embeddings);
  CHECK(model.attention_windows.size() == 42);
  CHECK(model.attention_window(0) == 4096);
  CHECK(model.attention_window(1) == 0);
  CHECK(model.attention_window(40) == 4096);
  CHECK(load(job_with(edited(gemma2_json, "50.0", "null"))).model.attention_soft_cap == 0);
}

TEST_CASE("Phi-3: Llama's layer; all layers with a window; part of a head may be rotated") {
  const ModelConfig model = load(job_with(phi3_json)).model;
  CHECK(model.activation == Activation::swiglu);
  CHECK(model.rotary_share == 1);
  CHECK(model.attention_windows == std::vector<std::int64_t>(32, 2047));
  CHECK(load(job_with(edited(phi3_json, "\"rope_scaling\": null", "\"partial_rotary_factor\": 0.75")))
            .model.rotary_share == 0.75);
}

TEST_CASE("Qwen3: heads that are not hidden / heads wide, norms of queries and keys") {
  const ModelConfig model = load(job_with(qwen3_json)).model;
  CHECK(model.head_dim == 128);  // 2560 / 32 = 80
  CHECK(model.qk_norm == QkNorm::of_heads);
  CHECK_FALSE(model.qkv_bias);
  CHECK(model.attention_windows.empty());
  CHECK(load(job_with(edited(qwen3_json, "\"head_dim\": 128, ", ""))).model == model);
}

TEST_CASE("MPT: ALiBi switches the learned positions off; no biases") {
  const ModelConfig model = load(job_with(mpt_json)).model;
  CHECK(model.position_embedding == PositionEmbedding::alibi);
  CHECK(model.max_position_embeddings == 0);
  CHECK_FALSE(model.norm_bias);
  CHECK_FALSE(model.mlp_bias);
  CHECK(model.qkv_clip == 0);
  CHECK(load(job_with(edited(mpt_json, "\"clip_qkv\": null", "\"clip_qkv\": 6"))).model.qkv_clip == 6);
  CHECK(model.ffn_hidden_size == 16384);
  const ModelConfig learned = load(job_with(edited(mpt_json, "\"alibi\": true", "\"alibi\": false"))).model;
  CHECK(learned.position_embedding == PositionEmbedding::learned_absolute);
  CHECK(learned.max_position_embeddings == 2048);
  CHECK(load(job_with(edited(mpt_json, "multihead_attention", "multiquery_attention")))
            .model.num_key_value_heads == 1);
}

TEST_CASE("sliding windows: of all layers, of the last ones, or layer by layer") {
  const std::string mistral = "{from: mistral-7b, num_hidden_layers: 3";
  CHECK(load(job_with(mistral + "}")).model.attention_windows == std::vector<std::int64_t>{4096, 4096, 4096});
  CHECK(load(job_with(mistral + ", sliding_window: null}")).model.attention_windows.empty());
  const std::string listed = ", layer_types: [full_attention, sliding_attention, full_attention]}";
  CHECK(load(job_with(mistral + listed)).model.attention_windows == std::vector<std::int64_t>{0, 4096, 0});
  const std::string qwen = "{from: qwen2.5-7b, num_hidden_layers: 3, sliding_window: 512";
  CHECK(load(job_with(qwen + "}")).model.attention_windows.empty());  // use_sliding_window: false
  CHECK(load(job_with(qwen + ", use_sliding_window: true, max_window_layers: 2}")).model.attention_windows ==
        std::vector<std::int64_t>{0, 0, 512});
  CHECK(message(qwen + listed) == "layer type 'sliding_attention' needs a sliding_window");
  CHECK(message(mistral + ", layer_types: [full_attention]}") == "layer_types has 1 entries for 3 layers");
  CHECK(message(mistral + ", layer_types: [full_attention, chunked_attention, full_attention]}") ==
        "layer type 'chunked_attention' is not supported yet");
  CHECK(message(mistral + ", sliding_window: 0}").starts_with("'model.sliding_window'"));
  CHECK(message(edited(gemma2_json, "\"sliding_window\": 4096, ", "")) ==
        "missing required key 'sliding_window' in 'model'");
}

TEST_CASE("every family: the effective config loads again as an equal job") {
  for (const std::string& model :
       {gpt_neox_json, opt_json, bloom_json, gemma2_json, phi3_json, qwen3_json, mpt_json,
        edited(mpt_json, "\"alibi\": true", "\"alibi\": false"), edited(opt_json, "\"relu\"", "\"gelu\""),
        edited(phi3_json, "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 0.1"),
        edited(gemma2_json, "50.0", "null"), std::string("{from: nemotron4-340b, mlp_bias: true}"),
        std::string("{from: mistral-7b, num_hidden_layers: 2, layer_types: [sliding_attention, "
                    "full_attention]}"),
        std::string(
            "{from: qwen2.5-7b, use_sliding_window: true, sliding_window: 512, max_window_layers: 3}"),
        std::string("{model_type: gpt, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: "
                    "64, squared_relu: true, position_embedding_type: rope, rotary_percent: 0.5}")}) {
    CAPTURE(model);
    const LoadedJob first = load_job_text(job_with(model), "job.yaml", with_presets());
    const LoadedJob again = load_job_text(first.effective_yaml, "job.yaml", LoadOptions{});
    CHECK(again.job == first.job);
    CHECK(again.job.config_sha256 == first.job.config_sha256);
  }
}

TEST_CASE("what a family has and simrun does not is refused by name") {
  CHECK(message(edited(opt_json, "\"word_embed_proj_dim\": 2048", "\"word_embed_proj_dim\": 512")) ==
        "word_embed_proj_dim 512 unlike hidden_size 2048 is not supported yet");
  CHECK(message(edited(opt_json, "\"layerdrop\": 0.0", "\"layerdrop\": 0.1")) ==
        "'layerdrop' above 0 is not supported yet");
  CHECK(message(edited(opt_json, "\"prefix\"", "\"layer_norm_elementwise_affine\": false, \"prefix\"")) ==
        "'layer_norm_elementwise_affine: false' is not supported yet");
  CHECK(message(edited(bloom_json, "\"apply_residual_connection_post_layernorm\": false",
                       "\"apply_residual_connection_post_layernorm\": true")) ==
        "'apply_residual_connection_post_layernorm: true' is not supported yet");
  CHECK(message(edited(mpt_json, "\"qk_ln\": false", "\"qk_ln\": true")) ==
        "'qk_ln: true' is not supported yet");
  CHECK(message(edited(mpt_json, "\"low_precision_layernorm\"", "\"rmsnorm\"")) ==
        "'rmsnorm' for 'model.norm_type' is not supported yet");
  CHECK(message(edited(phi3_json, "\"attention_bias\": false", "\"attention_bias\": true")) ==
        "'attention_bias: true' is not supported yet");
  CHECK(message(edited(gemma2_json, "\"hidden_activation\": \"gelu_pytorch_tanh\"",
                       "\"hidden_activation\": \"silu\"")) ==
        "'silu' for 'model.hidden_activation' is not supported yet");
  CHECK(message("{from: gpt3-175b, swiglu: true, ffn_hidden_size: 1024, squared_relu: true}") ==
        "swiglu and squared_relu exclude each other");
}

TEST_CASE("keys of experts and unknown keys of a family are shown where they stand") {
  const std::string job = R"(simrun: 1
model:
  from: mistral-7b
  num_local_experts: 8
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}
cluster: {from: dgx_h100, nodes: 1}
)";
  CHECK(refusal(job) == R"(job.yaml:4:3: error: unknown key 'num_local_experts' in 'model'
  hint: this family has no experts; mixtral, qwen3_moe and deepseek_v3 have, and gpt with num_experts.
1 error; nothing was run.
)");
  const std::string nested = edited(job, "from: mistral-7b\n  num_local_experts: 8",
                                    "from: mpt-7b\n  attn_config: {alibi: true, qk_layer_norm: true}");
  CHECK(refusal(nested) == R"(job.yaml:4:30: error: unknown key 'qk_layer_norm' in 'model.attn_config'
  hint: did you mean 'qk_gn' or 'qk_ln'?
1 error; nothing was run.
)");
}
