#pragma once

#include <algorithm>
#include <cstdint>

namespace simrun {

// Which keys a query of an attention sees: all, or with `on` those up to its own position, of which a sliding
// window keeps the last `window`, its own included (0: no window; Mistral: Jiang et al. 2023, arXiv
// 2310.06825, section 2).
struct CausalMask {
  bool on = false;
  std::int64_t window = 0;
  bool operator==(const CausalMask&) const = default;
};

// Columns of the score matrix that count as full attention: those of the window, not halved for causality.
constexpr std::int64_t attended_keys(const CausalMask& mask, std::int64_t keys) {
  return mask.window > 0 ? std::min(mask.window, keys) : keys;
}

// Share of the full score matrix that a kernel computes which skips what the mask hides: 1/2 under a causal
// mask; with a window w < s the first w rows are a triangle and the other s - w have w keys each,
// (w^2 / 2 + (s - w) w) / s^2 = w/s (1 - w / 2s).
constexpr double computed_share(const CausalMask& mask, std::int64_t keys) {
  if (!mask.on) return 1;
  const double share = static_cast<double>(attended_keys(mask, keys)) / static_cast<double>(keys);
  return share * (1 - share / 2);
}

}  // namespace simrun
