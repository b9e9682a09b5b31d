#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/delta_net_config.h"
#include "configs/mamba_config.h"
#include "configs/mla_config.h"
#include "configs/model_family.h"
#include "configs/moe_config.h"
#include "configs/scope_pattern.h"

// The model section of a job as plain values.
namespace simrun {

enum class Normalization : std::uint8_t { layer_norm, rms_norm };
// Where a layer's norms are: before attention and MLP, behind their residual additions (Vaswani et al. 2017),
// before and behind both, inside the residual (Gemma 2), or there only behind them (OLMo 2).
enum class NormPlacement : std::uint8_t { pre, post, sandwich, output };
// swiglu and geglu are gated: two matrices of hidden x ffn, one through SiLU or GELU, multiplied.
enum class Activation : std::uint8_t { gelu, relu, squared_relu, swiglu, geglu };
constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}
// Norms of queries and keys.
//   of_heads      RMS norms of each head, one weight for all queries' and one for all keys' (Qwen3)
//   of_all_heads  of all query heads of a token together, and of all key heads (OLMo 2)
//   by_head       layer norms of each head with a weight of its own and no bias (Command R+)
//   unweighted    RMS norms of each head without a weight, in layers with rotary positions (Llama 4)
enum class QkNorm : std::uint8_t { none, of_heads, of_all_heads, by_head, unweighted };
enum class PositionEmbedding : std::uint8_t { none, learned_absolute, rope, alibi };

// What a decoder's layer holds: attention and then an MLP or experts, a Gated DeltaNet in attention's place,
// or one thing alone, of a hybrid model.
enum class LayerContent : std::uint8_t { attention_and_mlp, attention, mlp, mamba, delta_net_and_mlp };

// Queries are multiplied by 1 + factor x log(1 + floor((position + 1) / step)), so that attention over many
// keys stays sharp (Nakanishi 2025, arXiv 2501.19399, in Llama 4's form). factor 0: they are not.
struct QueryTemperature {
  double factor = 0;
  std::int64_t step = 8192;
  bool operator==(const QueryTemperature&) const = default;
};

// What one layer is of those that a model has.
struct LayerKind {
  LayerContent content = LayerContent::attention_and_mlp;
  bool has_experts = false;  // in place of the MLP
  std::int64_t window = 0;   // tokens that a token attends to, itself included; 0: all before it
  bool has_rope = true;      // of a model with rotary positions
  auto operator<=>(const LayerKind&) const = default;
};

// A model as values, normalised from Hugging Face's or Megatron's keys. Decoder-only transformers differ in
// nothing else; other families say in `family` what they have besides, and leave at 0 what they have not.
struct ModelConfig {
  std::string model_type;  // as written: bloom, gpt, gpt2, llama, ...
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;  // of layers without experts; 0: there are none
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // = num_attention_heads without grouped-query attention
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;               // unpadded
  std::int64_t max_position_embeddings = 0;  // learned positions; 0 where there is no table
  std::int64_t reserved_positions = 0;       // rows of the table that stand for none (OPT: 2)
  Normalization normalization = Normalization::layer_norm;
  double norm_epsilon = 1e-5;  // added to the variance
  NormPlacement norm_placement = NormPlacement::pre;
  Activation activation = Activation::gelu;
  PositionEmbedding position_embedding = PositionEmbedding::learned_absolute;
  double rope_base = 10000;     // of the wave lengths (Su et al. 2021, arXiv 2104.09864, section 3.4.3)
  double window_rope_base = 0;  // that of layers with a window (Gemma 3); 0: the same
  double alibi_bias_max = 8;    // slopes go down to 2^-this (Press et al. 2021, arXiv 2108.12409, section 3)
  double attention_scale = 0;   // factor of the scores; 0: 1 / sqrt(elements of a query)
  double rotary_share = 1;  // of head_dim that rope turns; the kernel copies the rest, so it costs the same
  std::vector<LayerContent> layer_contents;  // by layer. Empty: attention_and_mlp everywhere
  // By layer: to how many tokens, itself included, a token attends; 0: to all before it. Empty: 0 everywhere.
  std::vector<std::int64_t> attention_windows;
  // They begin at multiples of their size: a token attends to those before it of its chunk (Llama 4).
  bool chunked_windows = false;
  double attention_soft_cap = 0;   // cap x tanh(score / cap), inside the attention kernel; 0: none
  double logit_soft_cap = 0;       // the same of the logits
  double qkv_clip = 0;             // queries, keys and values are kept in [-this, this]; 0: none is
  bool parallel_residual = false;  // x + attention(norm(x)) + mlp(norm'(x))
  bool shared_norm = false;        // of a parallel residual: norm' is norm (GPT-J, Command R)
  bool norm_bias = true;           // of layer norms
  bool norm_weight = true;         // of all norms; without it they have no bias either (OLMo)
  QkNorm qk_norm = QkNorm::none;
  std::vector<bool> layers_without_rope;  // by layer. Empty: none
  QueryTemperature query_temperature;     // of those layers
  bool embedding_norm = false;            // a norm behind the embedding
  double embedding_multiplier = 1;        // of the embedding (Gemma: sqrt(hidden_size))
  double residual_multiplier = 1;         // of what attention, MLP or experts add to the residual (Granite)
  double logit_multiplier = 1;            // of the logits (Command R)
  bool embedding_dropout = true;          // hidden_dropout is also behind the embedding
  bool scales_rope = false;               // rope_scaling is written, and in no plan
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool projection_bias = false;  // of the attention's output projection
  bool mlp_bias = false;         // of both (gated: all three) MLP matrices
  bool output_bias = false;      // of the logits
  // The gate of a gated MLP without biases is a product of its own: framework.kernels.separate_gate.
  bool separate_gate = false;
  // The attention's output, element by element, times the sigmoid of a product of its input (Qwen3-Next).
  bool attention_output_gate = false;
  bool attention_sinks = false;  // a learned score per head that takes part in the softmax and has no value
  MlaConfig mla;
  MambaConfig mamba;
  DeltaNetConfig delta_net;
  ExpertConfig experts;
  std::int64_t num_nextn_predict_layers = 0;  // further layers that predict the tokens after the next one
  std::vector<LayerKind> further_layers;      // that each of those is made of. Empty: one like the last
  std::vector<ScopePattern> frozen;           // whose parameters are not trained
  bool causal_attention = true;               // false: a token attends to those behind it too
  ModelFamily family;
  bool operator==(const ModelConfig&) const = default;

  LayerKind layer_kind(std::int64_t layer) const {
    const bool without_rope =
        !layers_without_rope.empty() && layers_without_rope.at(static_cast<std::size_t>(layer));
    return {layer_content(layer), experts.in_layer(layer), attention_window(layer), !without_rope};
  }
  LayerContent layer_content(std::int64_t layer) const {
    return layer_contents.empty() ? LayerContent::attention_and_mlp
                                  : layer_contents.at(static_cast<std::size_t>(layer));
  }
  // Layers are one thing each.
  bool is_hybrid() const { return !layer_contents.empty() && !delta_net.on(); }
  std::int64_t attention_window(std::int64_t layer) const {
    return attention_windows.empty() ? 0 : attention_windows.at(static_cast<std::size_t>(layer));
  }
};

// Whether there are more tensor-parallel ranks, or, times `exchange`, more that have heads of one sequence by
// all-to-all, than key-value heads: each rank then has a copy of one. Tensor-parallel ranks that have heads
// of their own make no copies for an exchange. Latent attention has as many keys as queries.
inline bool copies_key_value_heads(const ModelConfig& model, std::int64_t tensor, std::int64_t exchange) {
  const bool may_copy = tensor == 1 || tensor > model.num_key_value_heads;
  return may_copy && tensor * exchange > model.num_key_value_heads && !model.mla.on();
}

}  // namespace simrun
