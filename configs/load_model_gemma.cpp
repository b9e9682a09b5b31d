// Gemma (arXiv 2403.08295), section 2: GeGLU, heads of 256, an embedding that is scaled. Gemma 2 (arXiv
// 2408.00118), section 2: norms before and behind attention and MLP, soft caps, every other layer with a
// sliding window. Gemma 3 (arXiv 2503.19786), section 2: norms of queries and keys in place of the caps, five
// layers with a window for one without.
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

void read_shape(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  read_llama_shape(
      keys,
      {.has_key_value_default = false, .head_dim = 256, .tied = true});  // the defaults of all three configs
  model.embedding_multiplier = std::sqrt(static_cast<double>(model.hidden_size));
  model.qkv_bias = model.projection_bias = keys.section.boolean("attention_bias", false);
  refuse_if_true(keys, "use_bidirectional_attention");
  read_dropout(keys, {"attention_dropout", ""}, 0);
  // hidden_act is what the published configs also hold and the model does not read.
  keys.section.ignore({"hidden_act"});
  model.activation = read_activation(keys, "hidden_activation",
                                     {{"gelu_pytorch_tanh", Activation::geglu},
                                      {"gelu", Activation::geglu},
                                      {"gelu_new", Activation::geglu}});
}

// Gemma 2 and 3.
void read_sandwich(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  read_shape(keys);
  model.norm_placement = NormPlacement::sandwich;
  model.attention_soft_cap = read_soft_cap(keys, "attn_logit_softcapping");
  model.logit_soft_cap = read_soft_cap(keys, "final_logit_softcapping");
  // The default of both configs, whatever head_dim is.
  const double scalar = section.has("query_pre_attn_scalar")
                            ? section.real("query_pre_attn_scalar", limits::score_factor)
                            : 256;
  section.ignore({"query_pre_attn_scalar"});
  model.attention_scale = scalar > 0 ? 1 / std::sqrt(scalar) : 0;
  // Its absence would mean the configs' 4096 to Hugging Face, and full attention here.
  if (!section.has("sliding_window")) section.integer("sliding_window", limits::sequence);
}

// The base of the angles of layers with a window: a key of its own, or Hugging Face's newer map, by kind of
// layer. Gemma3TextConfig's default is 10000.
void read_window_rope_base(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  section.ignore({"rope_local_base_freq"});
  double base = 10000;
  if (section.has("rope_local_base_freq")) {
    base = section.real("rope_local_base_freq", limits::rope_base);
  } else if (const ConfigNode* parameters = section.section("rope_parameters")) {
    SectionReader kinds(keys.reading, parameters, section.path_of("rope_parameters"));
    const ConfigNode* node = kinds.section("sliding_attention");
    SectionReader kind(keys.reading, node, kinds.path_of("sliding_attention"));
    if (kind.has("rope_theta")) base = kind.real("rope_theta", limits::rope_base);
  }
  if (base != keys.model.rope_base) keys.model.window_rope_base = base;
}

}  // namespace

void read_gemma(const ModelKeys& keys) { read_shape(keys); }

void read_gemma2(const ModelKeys& keys) {
  read_sandwich(keys);
  keys.section.ignore({"sliding_window_size"});  // the model does not read it
  read_attention_windows(keys, WindowPattern::even_layers);
}

// How the angles of layers without a window are scaled is in no plan and changes no cost.
void read_gemma3_text(const ModelKeys& keys) {
  read_sandwich(keys);
  keys.model.qk_norm = QkNorm::of_heads;
  read_window_rope_base(keys);
  keys.section.ignore({"cache_implementation", "_sliding_window_pattern"});
  const std::int64_t period = keys.section.integer("sliding_window_pattern", limits::layers, 6);
  read_attention_windows(keys, WindowPattern::all_but_last_of, period);
}

}  // namespace simrun
