#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace simrun {

// The hint behind a number that does not divide or is not divided: the nearest that works on each side.

// "112 and 128 do.": the multiples of `step` next to `value`, the lower one only if there is one, the upper
// one only up to `most`; "" without any. REQUIRES: step >= 1.
std::string nearest_multiples(std::int64_t value, std::int64_t step,
                              std::int64_t most = std::numeric_limits<std::int64_t>::max());

// "4 and 8 do.": the divisors of `whole` next to `value`. REQUIRES: whole >= 1, and `value` is not one of
// them.
std::string nearest_divisors(std::int64_t whole, std::int64_t value);

}  // namespace simrun
