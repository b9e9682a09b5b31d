// BLOOM (arXiv 2211.05100, section 3.2): ALiBi, and a norm behind the embedding.
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_bloom(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = read_spelled(keys, {"n_layer", "num_hidden_layers"}, limits::layers).value;
  const Spelled width = read_spelled(keys, {"hidden_size", "n_embed"}, limits::width);
  model.hidden_size = width.value;
  model.num_attention_heads = read_spelled(keys, {"n_head", "num_attention_heads"}, limits::heads).value;
  model.num_key_value_heads = model.num_attention_heads;
  model.ffn_hidden_size = section.integer("n_inner", limits::width, 4 * model.hidden_size);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.position_embedding = PositionEmbedding::alibi;
  model.embedding_norm = true;
  model.embedding_dropout = false;
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.qkv_bias = model.projection_bias = model.mlp_bias = true;
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0);
  refuse_if_true(keys, "apply_residual_connection_post_layernorm");
  derive_head_size(keys, width.key, "");
  // How its kernels are fused and in which type the softmax runs; its training's sequence.
  section.ignore({"attention_softmax_in_fp32", "bias_dropout_fusion", "gradient_checkpointing",
                  "masked_softmax_fusion", "offset_alibi", "seq_length", "skip_bias_add", "skip_bias_add_qkv",
                  "slow_but_exact"});
  read_norm_epsilon(keys, "layer_norm_epsilon", 1e-5);
  ignore_bookkeeping(keys);
}

}  // namespace simrun
