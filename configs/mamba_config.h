#pragma once

#include <cstdint>

namespace simrun {

// Mamba-2 layers (Dao and Gu 2024, arXiv 2405.21060, section 7), as Megatron Core's MambaMixer has them:
// heads of head_dim channels, each with a state of head_dim x state_dim that is carried from token to token;
// heads of a group share what writes into the state and reads it (B and C). x, B and C go through a causal
// convolution over the last conv_width tokens first.
struct MambaConfig {
  static constexpr std::int64_t conv_width = 4;  // Megatron Core's d_conv; no flag sets it

  std::int64_t num_heads = 0;  // 0: the model has no such layers
  std::int64_t head_dim = 0;
  std::int64_t state_dim = 0;
  std::int64_t num_groups = 0;
  bool operator==(const MambaConfig&) const = default;

  bool on() const { return num_heads > 0; }
  std::int64_t inner_size() const { return num_heads * head_dim; }
};

}  // namespace simrun
