#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

namespace simrun {

// Which keys a query of an attention sees: all, or with `on` those up to its own position, of which a sliding
// window keeps the last `window`, its own included (0: no window; Mistral: Jiang et al. 2023, arXiv
// 2310.06825, section 2), or a chunk of so many tokens those of the query's chunk (Llama 4).
struct CausalMask {
  bool on = false;
  std::int64_t window = 0;
  bool chunked = false;  // windows begin at multiples of their size
  auto operator<=>(const CausalMask&) const = default;

  // The first key that the mask leaves to a query. REQUIRES: on.
  constexpr std::int64_t first_key(std::int64_t query) const {
    if (window == 0) return 0;
    return chunked ? query / window * window : std::max<std::int64_t>(query - window + 1, 0);
  }
};

// Columns of the score matrix that count as full attention: those of the window, not halved for causality.
// Chunks c of a sequence s and what is left of it, r, have their own columns: (s/c c^2 + r^2) / s of them.
constexpr std::int64_t attended_keys(const CausalMask& mask, std::int64_t keys) {
  if (mask.window <= 0 || mask.window >= keys) return keys;
  if (!mask.chunked) return mask.window;
  const std::int64_t rest = keys % mask.window;
  return ((keys - rest) * mask.window + rest * rest) / keys;
}

// Share of the full score matrix that a kernel computes which skips what the mask hides: 1/2 under a causal
// mask; with a window w < s the first w rows are a triangle and the other s - w have w keys each,
// (w^2 / 2 + (s - w) w) / s^2 = w/s (1 - w / 2s); of chunks each is a triangle.
constexpr double computed_share(const CausalMask& mask, std::int64_t keys) {
  if (!mask.on) return 1;
  const double share = static_cast<double>(attended_keys(mask, keys)) / static_cast<double>(keys);
  return mask.chunked ? share / 2 : share * (1 - share / 2);
}

}  // namespace simrun
