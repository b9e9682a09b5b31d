// GPT-2 and Megatron-LM's GPT.
#include <fmt/format.h>

#include "configs/delta_net_layers.h"
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_gpt2(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = section.integer("n_layer", limits::layers);
  model.hidden_size = section.integer("n_embd", limits::width);
  model.num_attention_heads = section.integer("n_head", limits::heads);
  model.num_key_value_heads = model.num_attention_heads;
  model.ffn_hidden_size = section.integer("n_inner", limits::width, 4 * model.hidden_size);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.max_position_embeddings = read_spelled(keys, {"n_positions", "n_ctx"}, limits::sequence).value;
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.qkv_bias = model.projection_bias = model.mlp_bias = true;
  read_dropout(keys, {"attn_pdrop", "resid_pdrop"}, 0.1);
  read_embedding_dropout(keys, "embd_pdrop", "resid_pdrop");
  model.activation = read_activation(keys, "activation_function", gelu_words());
  refuse_if_true(keys, "add_cross_attention");
  derive_head_size(keys, "n_embd", "");
  read_norm_epsilon(keys, "layer_norm_epsilon", 1e-5);
  ignore_bookkeeping(keys);
}

namespace {

Activation megatron_activation(const ModelKeys& keys) {
  const bool swiglu = keys.section.boolean("swiglu", false);
  const bool has_relu = keys.section.has("squared_relu");
  const bool squared_relu = has_relu && keys.section.boolean("squared_relu");
  keys.section.ignore({"squared_relu"});
  if (swiglu && squared_relu)
    keys.reading.problem(keys.section.path_of("squared_relu"), "swiglu and squared_relu exclude each other");
  return swiglu ? Activation::swiglu : squared_relu ? Activation::squared_relu : Activation::gelu;
}

PositionEmbedding megatron_positions(const ModelKeys& keys) {
  const WordRule rule = {{"learned_absolute", "rope", "none"}, {"relative", "mrope", "yarn"}};
  const std::string word = keys.section.word("position_embedding_type", rule, "learned_absolute");
  return word == "rope"   ? PositionEmbedding::rope
         : word == "none" ? PositionEmbedding::none
                          : PositionEmbedding::learned_absolute;
}

}  // namespace

void read_gpt(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = section.integer("num_layers", limits::layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.activation = megatron_activation(keys);
  std::optional<std::int64_t> four_h;
  if (!is_gated(model.activation)) four_h = 4 * model.hidden_size;
  model.ffn_hidden_size = section.integer("ffn_hidden_size", limits::width, four_h);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.num_key_value_heads = section.integer("num_query_groups", limits::heads, model.num_attention_heads);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  if (section.has("max_position_embeddings"))
    model.max_position_embeddings = section.integer("max_position_embeddings", limits::sequence);
  section.ignore({"max_position_embeddings"});
  model.tie_word_embeddings = !section.boolean("untie_embeddings_and_output_weights", false);
  const std::string norm = section.word("normalization", {{"LayerNorm", "RMSNorm"}, {}}, "LayerNorm");
  model.normalization = norm == "RMSNorm" ? Normalization::rms_norm : Normalization::layer_norm;
  model.position_embedding = megatron_positions(keys);
  if (section.has("rotary_percent")) model.rotary_share = section.real("rotary_percent", limits::share);
  if (section.has("rotary_base")) model.rope_base = section.real("rotary_base", limits::rope_base);
  section.ignore({"rotary_percent", "rotary_base"});
  read_norm_epsilon(keys, "norm_epsilon", 1e-5);
  model.projection_bias = model.mlp_bias = !section.boolean("disable_bias_linear", false);
  model.qkv_bias = section.boolean("add_qkv_bias", false) || model.projection_bias;
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0.1);
  read_gpt_attention(keys);
  read_gpt_prediction(keys);
  read_gpt_experts(keys);
  read_gpt_delta_net(keys);
}

}  // namespace simrun
