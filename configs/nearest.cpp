#include "configs/nearest.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

std::string nearest_multiples(std::int64_t value, std::int64_t step, std::int64_t most) {
  const std::int64_t below = std::min(value, most) / step * step;
  const bool has_above = value / step * step <= most - step;
  if (below == 0) return has_above ? fmt::format("{} does.", step) : "";
  if (!has_above) return fmt::format("{} does.", below);
  return fmt::format("{} and {} do.", below, below + step);
}

std::string nearest_divisors(std::int64_t whole, std::int64_t value) {
  std::int64_t below = 1;
  std::int64_t above = whole;
  for (std::int64_t small = 1; small * small <= whole; ++small) {
    if (whole % small != 0) continue;
    for (const std::int64_t divisor : {small, whole / small}) {
      if (divisor < value && divisor > below) below = divisor;
      if (divisor > value && divisor < above) above = divisor;
    }
  }
  if (value > whole) return fmt::format("at most {}.", whole);
  return below == above ? fmt::format("{} does.", below) : fmt::format("{} and {} do.", below, above);
}

}  // namespace simrun
