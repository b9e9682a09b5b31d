#pragma once

#include <cstdint>

namespace simrun {

// Gated DeltaNet layers (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464), as Qwen3-Next and Megatron
// Core's GatedDeltaNet have them: every value head has a state of key_head_dim x value_head_dim that is
// carried from token to token; as many value heads share the query and the key of a key head. Queries, keys
// and values go through a causal convolution over the last conv_width tokens first.
struct DeltaNetConfig {
  static constexpr std::int64_t conv_width = 4;  // linear_conv_kernel_dim
  static constexpr std::int64_t chunk = 64;      // tokens that the kernels take together

  std::int64_t num_key_heads = 0;  // 0: the model has no such layers
  std::int64_t num_value_heads = 0;
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  bool operator==(const DeltaNetConfig&) const = default;

  bool on() const { return num_key_heads > 0; }
  std::int64_t value_size() const { return num_value_heads * value_head_dim; }
  // Channels of the convolution: queries, keys and values.
  std::int64_t convolved() const { return 2 * num_key_heads * key_head_dim + value_size(); }
};

}  // namespace simrun
