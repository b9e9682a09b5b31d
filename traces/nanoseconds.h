#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace simrun {

// A moment or a length in whole nanoseconds and what is left, 0 to 999 ps.
struct TracedTime {
  std::int64_t ns = 0;
  std::int64_t ps = 0;
  bool operator==(const TracedTime&) const = default;
};

// A decimal number of microseconds as JSON writes it ("1712345678901234.567", "-0.25", "1.5e3"), exactly;
// what is finer than a picosecond is cut. Nothing if it is no number, or beyond 2^61 ns (73 years).
std::optional<TracedTime> microseconds_to_ns(std::string_view text);

// Whether that finds nothing in a number, which is too large then.
bool is_beyond_ns(std::string_view text);

}  // namespace simrun
