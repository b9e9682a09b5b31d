// BERT (Devlin et al. 2019, arXiv 1810.04805) with the heads that it is trained with.
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_bert(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  BertConfig bert;
  model.num_layers = section.integer("num_hidden_layers", limits::layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.ffn_hidden_size = section.integer("intermediate_size", limits::width);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.num_key_value_heads = model.num_attention_heads;
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.max_position_embeddings = section.integer("max_position_embeddings", limits::sequence);
  bert.token_types = section.integer("type_vocab_size", limits::heads, 2);
  bert.next_sentence_head = section.boolean("bert_binary_head", true);
  model.activation = read_activation(keys, "hidden_act", gelu_words());
  model.norm_placement = NormPlacement::post;
  model.embedding_norm = true;
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.qkv_bias = model.projection_bias = model.mlp_bias = true;
  model.causal_attention = false;
  read_dropout(keys, {"attention_probs_dropout_prob", "hidden_dropout_prob"}, 0.1);
  section.word("position_embedding_type", {{"absolute"}, {"relative_key", "relative_key_query"}}, "absolute");
  refuse_if_true(keys, "is_decoder");
  refuse_if_true(keys, "add_cross_attention");
  derive_head_size(keys, "hidden_size", "");
  section.ignore({"classifier_dropout", "gradient_checkpointing", "directionality", "pooler_fc_size",
                  "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
                  "pooler_type"});
  read_norm_epsilon(keys, "layer_norm_eps", 1e-12);
  ignore_bookkeeping(keys);
  model.family = bert;
}

}  // namespace simrun
