// Encoder-decoders: T5 by Hugging Face's keys, and M6 by Megatron-LM's.
#include <fmt/format.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void use_encoder_decoder(ModelConfig& model, const EncoderDecoderConfig& stacks) {
  model.num_key_value_heads = model.num_attention_heads;
  model.num_layers = stacks.encoder_layers + stacks.decoder_layers;
  model.family = stacks;
}

// One rate for both dropouts.
void read_one_dropout(const ModelKeys& keys, const std::string& key, double fallback) {
  read_attention_dropout(keys, key, fallback);
  keys.job.training.hidden_dropout = keys.job.training.attention_dropout;
  const auto written =
      std::ranges::find(keys.reading.values, "training.attention_dropout", &EffectiveValue::path);
  if (written == keys.reading.values.end()) return;
  const EffectiveValue value = *written;
  keys.reading.record("training.hidden_dropout", value.text, value.origin);
}

// How many of a stack's layers have experts (0: none), and hence which: SwitchTransformersConfig's
// layers // number is the step, and layer i has them where i % step == 1, or always with step 1.
void select_sparse_layers(const ModelKeys& keys, const char* key, ExpertLayers stack, std::int64_t end) {
  const std::int64_t layers = end - stack.first;
  const std::int64_t sparse =
      keys.section.integer(key, {0, limits::layers.most}, std::min<std::int64_t>(3, layers));
  if (sparse > layers)
    return keys.reading.problem(keys.section.path_of(key),
                                fmt::format("{} of {} layers have experts", sparse, layers),
                                fmt::format("at most {}.", layers));
  stack.step = sparse > 0 ? layers / sparse : 0;
  for (std::int64_t layer = 0; layer < layers && stack.step > 0; ++layer)
    keys.model.experts.layers[static_cast<std::size_t>(stack.first + layer)] =
        stack.step == 1 || layer % stack.step == 1;
}

}  // namespace

// T5 (Raffel et al. 2020, arXiv 1910.10683, section 2.1): RMS norms, no biases, relative positions as one
// bias per head and distance. `relu` is the paper's; `gated-gelu` that of T5 1.1 and mT5.
void read_t5(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  EncoderDecoderConfig stacks;
  stacks.encoder_layers = section.integer("num_layers", limits::layers);
  stacks.decoder_layers = section.integer("num_decoder_layers", limits::layers, stacks.encoder_layers);
  model.hidden_size = section.integer("d_model", limits::width);
  model.head_dim = section.integer("d_kv", limits::width);
  model.ffn_hidden_size = section.integer("d_ff", limits::width);
  model.num_attention_heads = section.integer("num_heads", limits::heads);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  stacks.relative_buckets = section.integer("relative_attention_num_buckets", limits::heads, 32);
  if (section.has("relative_attention_max_distance"))
    stacks.relative_distance = section.integer("relative_attention_max_distance", limits::sequence);
  model.attention_scale = 1;  // which the initial values make up for (section 2.1)
  const std::string feed_forward =
      section.word("feed_forward_proj", {{"relu", "gated-gelu"}, {"gated-silu", "gelu", "silu"}}, "relu");
  model.activation = feed_forward == "gated-gelu" ? Activation::geglu : Activation::relu;
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.normalization = Normalization::rms_norm;
  model.position_embedding = PositionEmbedding::none;
  read_one_dropout(keys, "dropout_rate", 0.1);
  section.ignore({"dense_act_fn", "initializer_factor", "is_encoder_decoder", "is_gated_act", "n_positions",
                  "relative_attention_max_distance", "classifier_dropout"});
  read_norm_epsilon(keys, "layer_norm_epsilon", 1e-6);
  ignore_bookkeeping(keys);
  use_encoder_decoder(model, stacks);
}

// Switch Transformer (Fedus et al. 2021, arXiv 2101.03961): T5 with experts in some layers, one of them for
// each token. Hugging Face's class has no gated experts; `feed_forward_proj: gated-gelu` is the paper's.
void read_switch(const ModelKeys& keys) {
  read_t5(keys);
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  const auto* stacks = family_as<EncoderDecoderConfig>(model.family);
  model.experts.count = section.integer("num_experts", limits::experts, 8);
  model.experts.topk = section.integer("num_selected_experts", limits::experts, 1);
  if (model.experts.topk > model.experts.count)
    keys.reading.problem(
        section.path_of("num_selected_experts"),
        fmt::format("a token goes to {} of {} experts", model.experts.topk, model.experts.count),
        fmt::format("at most {}.", model.experts.count));
  model.experts.ffn_hidden_size = model.ffn_hidden_size;
  model.experts.router_bias = section.boolean("router_bias", false);
  read_router_weights({.normalizes_default = false}, keys);
  select_expert_layers({.first = 0, .step = 0, .phase = 0}, model);
  select_sparse_layers(keys, "num_sparse_encoder_layers", {.first = 0}, stacks->encoder_layers);
  select_sparse_layers(keys, "num_sparse_decoder_layers", {.first = stacks->encoder_layers},
                       model.num_layers);
  if (std::ranges::find(model.experts.layers, false) == model.experts.layers.end()) model.ffn_hidden_size = 0;
  // How many tokens an expert takes is the job's to say: moe.capacity_factor.
  section.ignore({"add_router_probs", "decoder_sparse_step", "encoder_sparse_step", "expert_capacity",
                  "is_full_sparse", "layer_norm_epsilon", "router_dtype", "router_ignore_padding_tokens",
                  "router_jitter_noise", "router_aux_loss_coef", "router_type", "router_z_loss_coef"});
}

// M6 (Lin et al. 2021, arXiv 2103.00823): Transformer layers with biases and layer norms before each
// sublayer, learned positions; text only here, without its image patches. With Megatron-LM's keys of experts
// it is GShard's shape (Lepikhin et al. 2021, arXiv 2006.16668): layers are counted through both stacks.
void read_m6(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  EncoderDecoderConfig stacks;
  stacks.encoder_layers = section.integer("encoder_num_layers", limits::layers);
  stacks.decoder_layers = section.integer("decoder_num_layers", limits::layers, stacks.encoder_layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.ffn_hidden_size = section.integer("ffn_hidden_size", limits::width, 4 * model.hidden_size);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.max_position_embeddings = section.integer("max_position_embeddings", limits::sequence);
  model.tie_word_embeddings = !section.boolean("untie_embeddings_and_output_weights", false);
  model.qkv_bias = model.projection_bias = model.mlp_bias = true;
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0.1);
  derive_head_size(keys, "hidden_size", "kv_channels");
  use_encoder_decoder(model, stacks);
  read_gpt_experts(keys);
}

}  // namespace simrun
