// Command R and R+ (CohereConfig): attention and MLP side by side behind one layer norm without bias, logits
// that are scaled; in R+ a layer norm of each query and key head. Command R7B and A (Cohere2Config): three
// layers with a sliding window and rotary positions for one without either.
#include <algorithm>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_command(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  read_llama_shape(keys, {.tied = true, .epsilon_key = "layer_norm_eps", .norm_epsilon = 1e-5});
  model.normalization = Normalization::layer_norm;
  model.norm_bias = false;
  model.parallel_residual = model.shared_norm = true;
  model.qkv_bias = model.projection_bias = section.boolean("attention_bias", false);
  model.logit_multiplier = section.real("logit_scale", limits::score_factor, 0.0625);
  if (section.boolean("use_qk_norm", false)) model.qk_norm = QkNorm::by_head;
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  section.ignore({"model_max_length"});
}

}  // namespace

void read_cohere(const ModelKeys& keys) { read_command(keys); }

void read_cohere2(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  read_command(keys);
  // Its absence would mean Cohere2Config's 4096 to Hugging Face, and full attention here.
  if (!section.has("sliding_window")) section.integer("sliding_window", limits::sequence);
  read_attention_windows(keys, WindowPattern::all_but_last_of,
                         section.integer("sliding_window_pattern", limits::layers, 4));
  for (const std::int64_t window : model.attention_windows) model.layers_without_rope.push_back(window == 0);
  // What the published configs also hold, and say by other keys or alike for all models.
  section.ignore({"_sliding_window_pattern", "layer_switch", "order_of_interleaved_layers",
                  "position_embedding_type", "rotary_pct", "use_embedding_sharing", "use_gated_activation",
                  "use_parallel_block", "use_parallel_embedding"});
}

}  // namespace simrun
