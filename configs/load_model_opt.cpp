// OPT (arXiv 2205.01068): GPT-3's shapes with ReLU, and two rows of the position table that stand for none.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void refuse_embedding_projection(const ModelKeys& keys) {
  keys.section.ignore({"word_embed_proj_dim"});
  if (!keys.section.has("word_embed_proj_dim")) return;
  const std::int64_t width = keys.section.integer("word_embed_proj_dim", limits::width);
  keys.reading.take(keys.section.path_of("word_embed_proj_dim"));
  if (width > 0 && keys.model.hidden_size > 0 && width != keys.model.hidden_size)
    keys.reading.problem(keys.section.path_of("word_embed_proj_dim"),
                         fmt::format("word_embed_proj_dim {} unlike hidden_size {} is not supported yet",
                                     width, keys.model.hidden_size));
}

// Dropouts of which the published models have none.
void refuse_other_dropouts(const ModelKeys& keys) {
  for (const char* key : {"activation_dropout", "layerdrop"}) {
    keys.section.ignore({key});
    if (!keys.section.has(key)) continue;
    if (keys.section.real(key, limits::probability) > 0)
      keys.reading.problem(keys.section.path_of(key), fmt::format("'{}' above 0 is not supported yet", key));
    keys.reading.take(keys.section.path_of(key));
  }
}

// A key whose only supported value is true.
void refuse_if_false(const ModelKeys& keys, const char* key) {
  if (!keys.section.boolean(key, true) && keys.section.has(key))
    keys.reading.problem(keys.section.path_of(key), fmt::format("'{}: false' is not supported yet", key));
  keys.reading.take(keys.section.path_of(key));
}

}  // namespace

void read_opt(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = section.integer("num_hidden_layers", limits::layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.ffn_hidden_size = section.integer("ffn_dim", limits::width);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.num_key_value_heads = model.num_attention_heads;
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.max_position_embeddings = section.integer("max_position_embeddings", limits::sequence);
  model.reserved_positions = 2;
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  const bool before = section.boolean("do_layer_norm_before", true);
  model.norm_placement = before ? NormPlacement::pre : NormPlacement::post;
  model.qkv_bias = model.projection_bias = model.mlp_bias = section.boolean("enable_bias", true);
  model.embedding_dropout = false;
  read_dropout(keys, {"attention_dropout", "dropout"}, 0.1);
  refuse_other_dropouts(keys);
  refuse_embedding_projection(keys);
  refuse_if_false(keys, "layer_norm_elementwise_affine");
  refuse_if_true(keys, "_remove_final_layer_norm");
  model.activation =
      read_activation(keys, "activation_function", {{"relu", Activation::relu}, {"gelu", Activation::gelu}});
  derive_head_size(keys, "hidden_size", "");
  ignore_bookkeeping(keys);
}

}  // namespace simrun
