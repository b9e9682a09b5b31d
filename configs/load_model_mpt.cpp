// MPT, by llm-foundry's names: ALiBi or learned positions, and no biases, not even of layer norms.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_heads(const ModelKeys& keys) {
  const std::string type = keys.section.word(
      "attn_type", {{"multihead_attention", "multiquery_attention", "grouped_query_attention"}, {}},
      "multihead_attention");
  keys.section.ignore({"kv_n_heads"});
  keys.model.num_key_value_heads = type == "multiquery_attention" ? 1
                                   : type == "grouped_query_attention"
                                       ? keys.section.integer("kv_n_heads", limits::heads)
                                       : keys.model.num_attention_heads;
}

// The map attn_config; not written, it is MptAttentionConfig's defaults.
void read_attention(const ModelKeys& outer) {
  SectionReader section(outer.reading, outer.section.section("attn_config"), "model.attn_config");
  const ModelKeys keys{section, outer.reading, outer.job, outer.model};
  read_heads(keys);
  const bool alibi = section.boolean("alibi", true);
  keys.model.position_embedding = alibi ? PositionEmbedding::alibi : PositionEmbedding::none;
  read_attention_dropout(keys, "attn_pdrop", 0);
  read_qkv_clip(keys);
  for (const char* key : {"attn_uses_sequence_id", "prefix_lm", "qk_gn", "qk_ln", "rope"})
    refuse_if_true(keys, key);
  if (section.has("alibi_bias_max"))
    outer.model.alibi_bias_max = section.real("alibi_bias_max", limits::alibi_bias);
  if (section.has("softmax_scale"))
    outer.model.attention_scale = section.real("softmax_scale", limits::score_factor);
  section.ignore({"alibi_bias_max", "attn_impl", "softmax_scale"});
  section.finish();
}

}  // namespace

void read_mpt(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = section.integer("n_layers", limits::layers);
  model.hidden_size = section.integer("d_model", limits::width);
  model.num_attention_heads = section.integer("n_heads", limits::heads);
  model.ffn_hidden_size = model.hidden_size * section.integer("expansion_ratio", {1, 1000}, 4);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  read_attention(keys);
  // ALiBi switches the learned positions off, whatever learned_pos_emb says.
  if (section.boolean("learned_pos_emb", true) && model.position_embedding == PositionEmbedding::none)
    model.position_embedding = PositionEmbedding::learned_absolute;
  model.max_position_embeddings = section.integer("max_seq_len", limits::sequence, 2048);
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.norm_bias = !section.boolean("no_bias", true);
  model.qkv_bias = model.projection_bias = model.mlp_bias = model.norm_bias;
  model.activation = Activation::gelu;
  read_hidden_dropout(keys, "resid_pdrop", 0);
  read_embedding_dropout(keys, "emb_pdrop", "resid_pdrop");
  refuse_if_written(keys, "logit_scale", "a scale of the logits");
  refuse_if_written(keys, "ffn_config", "ffn_config");
  section.word("norm_type", {{"low_precision_layernorm", "layernorm"}, {"rmsnorm", "low_precision_rmsnorm"}},
               "low_precision_layernorm");
  keys.reading.take(section.path_of("norm_type"));
  derive_head_size(keys, "d_model", "");
  section.ignore({"embedding_fraction", "init_config", "tokenizer_name", "verbose"});
  read_norm_epsilon(keys, "layer_norm_epsilon", 1e-5);
  ignore_bookkeeping(keys);
}

}  // namespace simrun
