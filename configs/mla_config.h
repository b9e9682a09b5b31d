#pragma once

#include <cstdint>

namespace simrun {

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads are
// made from one compressed vector of kv_lora_rank per token, and qk_rope_head_dim further ones, which alone
// carry the position, are shared by all heads.
struct MlaConfig {
  std::int64_t q_lora_rank = 0;   // 0: queries are not compressed (DeepSeek-V2-Lite)
  std::int64_t kv_lora_rank = 0;  // 0: the model has ordinary attention
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  bool operator==(const MlaConfig&) const = default;

  bool on() const { return kv_lora_rank > 0; }
  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

}  // namespace simrun
