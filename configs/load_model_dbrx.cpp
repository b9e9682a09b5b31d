// DBRX (Databricks, 2024; DbrxConfig): experts in every layer, of which a token has four of sixteen, layer
// norms without biases, queries, keys and values that are clipped. Attention and experts have maps of their
// own.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_attention_map(const ModelKeys& outer) {
  SectionReader section(outer.reading, outer.section.section("attn_config"), "model.attn_config");
  const ModelKeys keys{section, outer.reading, outer.job, outer.model};
  keys.model.num_key_value_heads = section.integer("kv_n_heads", limits::heads, 1);
  read_attention_dropout(keys, "attn_pdrop", 0);
  read_qkv_clip(keys);
  read_rope_base(keys, "rope_theta", 10000);
  section.ignore({"model_type"});
  section.finish();
}

// The weights of a token's experts are divided by their norm of this order: 1 is their sum.
void read_weight_norm(const ModelKeys& keys) {
  const char* const key = "moe_normalize_expert_weights";
  keys.section.ignore({key});
  keys.model.experts.normalizes_weights = true;
  if (!keys.section.has(key)) return;
  const double order = keys.section.real(key, {0, 100});
  keys.reading.take(keys.section.path_of(key));
  if (order != 1)
    keys.reading.problem(keys.section.path_of(key),
                         fmt::format("'{}' other than 1 is not supported yet", key));
}

void read_expert_map(const ModelKeys& outer) {
  SectionReader section(outer.reading, outer.section.section("ffn_config"), "model.ffn_config");
  const ModelKeys keys{section, outer.reading, outer.job, outer.model};
  read_experts({"moe_num_experts", "moe_top_k", "ffn_hidden_size"}, keys);
  read_router_weights({.balance_loss = "moe_loss_weight"}, keys);
  read_weight_norm(keys);
  keys.model.activation = Activation::swiglu;
  if (const ConfigNode* function = section.section("ffn_act_fn")) {
    SectionReader of_function(keys.reading, function, section.path_of("ffn_act_fn"));
    const ModelKeys function_keys{of_function, keys.reading, keys.job, keys.model};
    keys.model.activation = read_activation(function_keys, "name", {{"silu", Activation::swiglu}});
    of_function.finish();
  }
  section.ignore({"model_type", "moe_jitter_eps", "moe_loss_weight"});
  section.finish();
}

}  // namespace

void read_dbrx(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = section.integer("n_layers", limits::layers);
  model.hidden_size = section.integer("d_model", limits::width);
  model.num_attention_heads = section.integer("n_heads", limits::heads);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.normalization = Normalization::layer_norm;
  model.norm_bias = false;
  model.norm_epsilon = 1e-5;
  model.position_embedding = PositionEmbedding::rope;
  refuse_if_true(keys, "tie_word_embeddings");
  read_attention_map(keys);
  read_expert_map(keys);
  read_hidden_dropout(keys, "resid_pdrop", 0);
  read_embedding_dropout(keys, "emb_pdrop", "resid_pdrop");
  derive_head_size(keys, "d_model", "");
  section.ignore({"max_seq_len"});  // rotary positions have no table
  ignore_router_keys(keys);
  ignore_bookkeeping(keys);
}

}  // namespace simrun
