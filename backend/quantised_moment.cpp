#include "backend/quantised_moment.h"

#include <cmath>

namespace simrun {
namespace {

// In every decade below 1 twice as many multiples as in the one below it, in the middles of equal steps from
// a tenth of the decade to all of it; and 0 and 1.
std::array<double, 256> made_codes(bool is_signed) {
  constexpr int decades = 7;
  std::vector<double> values{0, 1};
  for (int i = 0; i < decades; ++i) {
    const int steps = 1 << (is_signed ? i : i + 1);
    for (int step = 0; step < steps; ++step) {
      const double value = (0.1 + 0.9 * (step + 0.5) / steps) * std::pow(10.0, i + 1 - decades);
      values.push_back(value);
      if (is_signed) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  std::array<double, 256> codes{};
  std::copy(values.begin(), values.end(), codes.begin());
  return codes;
}

}  // namespace

const std::array<double, 256>& moment_codes(bool is_signed) {
  static const std::array<double, 256> all = made_codes(true), positive = made_codes(false);
  return is_signed ? all : positive;
}

}  // namespace simrun
