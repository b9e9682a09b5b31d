// Falcon (arXiv 2311.16867), section 4: attention and MLP side by side behind one norm and one key-value head
// (7B), or behind a norm each and a key-value head for many queries (40B and 180B: new_decoder_architecture).
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_key_value_heads(const ModelKeys& keys, bool is_new) {
  SectionReader& section = keys.section;
  const bool multi_query = section.boolean("multi_query", true);
  section.ignore({"num_kv_heads", "n_head_kv"});
  keys.model.num_key_value_heads = keys.model.num_attention_heads;
  if (!is_new && multi_query)
    keys.model.num_key_value_heads = 1;
  else if (section.has("num_kv_heads") || section.has("n_head_kv"))
    keys.model.num_key_value_heads = read_spelled(keys, {"num_kv_heads", "n_head_kv"}, limits::heads).value;
}

// FalconDecoderLayer: a norm for attention and one for the MLP behind it, or beside it one or two.
void read_branches(const ModelKeys& keys, bool is_new) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  const bool parallel = section.boolean("parallel_attn", true);
  if (is_new && !parallel)
    keys.reading.problem(section.path_of("parallel_attn"),
                         "'parallel_attn: false' beside new_decoder_architecture is not supported yet");
  model.parallel_residual = parallel || is_new;
  std::int64_t norms = is_new ? 2 : 1;
  if (is_new && section.has("num_ln_in_parallel_attn"))
    norms = section.integer("num_ln_in_parallel_attn", {1, 2});
  section.ignore({"num_ln_in_parallel_attn"});
  model.shared_norm = model.parallel_residual && norms == 1;
}

}  // namespace

void read_falcon(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.num_layers = read_spelled(keys, {"num_hidden_layers", "n_layer"}, limits::layers).value;
  model.hidden_size = read_spelled(keys, {"hidden_size", "n_embed"}, limits::width).value;
  model.num_attention_heads = read_spelled(keys, {"num_attention_heads", "n_head"}, limits::heads).value;
  const bool is_new = section.boolean("new_decoder_architecture", false);
  read_key_value_heads(keys, is_new);
  read_branches(keys, is_new);
  model.ffn_hidden_size = 4 * model.hidden_size;
  if (section.has("ffn_hidden_size"))
    model.ffn_hidden_size = section.integer("ffn_hidden_size", limits::width);
  else if (section.has("ff_factor"))
    model.ffn_hidden_size = model.hidden_size * section.integer("ff_factor", {1, 1000});
  section.ignore({"ffn_hidden_size", "ff_factor", "max_position_embeddings"});
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.position_embedding = PositionEmbedding::rope;
  // Its ALiBi is scaled with the scores, as no other family's is.
  refuse_if_true(keys, "alibi");
  refuse_if_true(keys, "apply_residual_connection_post_layernorm");
  model.qkv_bias = model.projection_bias = model.mlp_bias = section.boolean("bias", false);
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0);
  model.embedding_dropout = false;
  model.activation = read_activation(keys, "activation", gelu_words());
  derive_head_size(keys, "hidden_size", "");
  read_norm_epsilon(keys, "layer_norm_epsilon", 1e-5);
  read_rope_base(keys, "rope_theta", 10000);
  ignore_bookkeeping(keys);
}

}  // namespace simrun
