// Phi-1, 1.5 (arXiv 2309.05463, section 2.1) and 2: attention and MLP side by side behind one norm, biases
// everywhere, part of each head rotated. StableLM (arXiv 2402.17834, section 2.1): Llama with layer norms,
// part of each head rotated, and in the 12B attention and MLP side by side and a norm of each query and key
// head.
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_phi(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  read_llama_shape(keys, {.epsilon_key = "layer_norm_eps", .norm_epsilon = 1e-5});
  model.normalization = Normalization::layer_norm;
  model.parallel_residual = model.shared_norm = true;
  model.qkv_bias = model.projection_bias = model.mlp_bias = model.output_bias = true;
  refuse_if_true(keys, "qk_layernorm");
  read_rotary_share(keys, 0.5);
  read_dropout(keys, {"attention_dropout", "resid_pdrop"}, 0);
  read_embedding_dropout(keys, "embd_pdrop", "resid_pdrop");
  model.activation =
      read_activation(keys, "hidden_act", {{"gelu_new", Activation::gelu}, {"gelu", Activation::gelu}});
}

void read_stablelm(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  read_llama_shape(keys,
                   {.has_key_value_default = false, .epsilon_key = "layer_norm_eps", .norm_epsilon = 1e-5});
  model.normalization = Normalization::layer_norm;
  model.parallel_residual = model.shared_norm = section.boolean("use_parallel_residual", false);
  model.qkv_bias = section.boolean("use_qkv_bias", false);
  if (section.boolean("qk_layernorm", false)) model.qk_norm = QkNorm::by_head;
  read_rotary_share(keys, 0.25);
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0);
  model.embedding_dropout = false;
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  // Of the first published config, in terms of GPT-NeoX.
  section.ignore({"rope_pct", "norm_eps"});
}

}  // namespace simrun
