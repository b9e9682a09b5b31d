// GPT-NeoX (arXiv 2204.06745, section 2) and Pythia: attention and MLP in parallel, a quarter of each head
// rotated.
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_gpt_neox(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = section.integer("num_hidden_layers", limits::layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.ffn_hidden_size = section.integer("intermediate_size", limits::width);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.num_key_value_heads = model.num_attention_heads;
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", false);
  model.position_embedding = PositionEmbedding::rope;
  model.rotary_share = section.real("rotary_pct", limits::share, 0.25);
  model.parallel_residual = section.boolean("use_parallel_residual", true);
  model.qkv_bias = model.projection_bias = section.boolean("attention_bias", true);
  model.mlp_bias = true;
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0);
  model.activation = read_activation(keys, "hidden_act", gelu_words());
  derive_head_size(keys, "hidden_size", "");
  // The first two are of GPT-NeoX-20B's config.json, and Hugging Face's model does not read them.
  section.ignore({"attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout",
                  "max_position_embeddings"});
  read_norm_epsilon(keys, "layer_norm_eps", 1e-5);
  read_rope_base(keys, "rotary_emb_base", 10000);
  ignore_bookkeeping(keys);
}

}  // namespace simrun
