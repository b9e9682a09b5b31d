// Gemma 2 (arXiv 2408.00118), section 2: norms before and behind attention and MLP, GeGLU, soft caps, every
// other layer with a sliding window.
#include <cmath>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

// Not written or null: off.
double read_soft_cap(const ModelKeys& keys, const std::string& key) {
  keys.section.ignore({key});
  return keys.section.has(key) ? keys.section.real(key, limits::soft_cap) : 0;
}

}  // namespace

void read_gemma2(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  read_llama_shape(keys, {.head_dim = 256, .tied = true});  // Gemma2Config's defaults
  model.norm_placement = NormPlacement::sandwich;
  model.embedding_scale = true;
  model.qkv_bias = model.projection_bias = section.boolean("attention_bias", false);
  model.attention_soft_cap = read_soft_cap(keys, "attn_logit_softcapping");
  model.logit_soft_cap = read_soft_cap(keys, "final_logit_softcapping");
  // Gemma2Config's default, whatever head_dim is.
  const double scalar = section.has("query_pre_attn_scalar")
                            ? section.real("query_pre_attn_scalar", limits::score_factor)
                            : 256;
  section.ignore({"query_pre_attn_scalar"});
  model.attention_scale = scalar > 0 ? 1 / std::sqrt(scalar) : 0;
  refuse_if_true(keys, "use_bidirectional_attention");
  read_dropout(keys, {"attention_dropout", ""}, 0);
  // hidden_act is what the published configs also hold and the model does not read.
  section.ignore({"hidden_act"});
  model.activation = read_activation(keys, "hidden_activation",
                                     {{"gelu_pytorch_tanh", Activation::geglu},
                                      {"gelu", Activation::geglu},
                                      {"gelu_new", Activation::geglu}});
  section.ignore({"sliding_window_size"});  // likewise
  // Its absence would mean Gemma2Config's 4096 to Hugging Face, and full attention here.
  if (!section.has("sliding_window")) section.integer("sliding_window", limits::sequence);
  read_attention_windows(keys, WindowPattern::even_layers);
}

}  // namespace simrun
