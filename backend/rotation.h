#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simrun::cpu {

// How many elements of a head of `width` a share of it is; rope turns pairs of them.
inline std::int64_t turned_elements(double share, std::int64_t width) {
  // A third of 192 is 64, whatever the quotient's last bit.
  return static_cast<std::int64_t>(share * static_cast<double>(width) + 1e-6) / 2 * 2;
}

// Turns the pairs (i, i + n / 2) of n elements by position x base^(-2 i / n) (Su et al. 2021, arXiv
// 2104.09864, section 3.4.3).
class Rotation {
 public:
  Rotation(double base, std::int64_t n) {
    for (std::int64_t i = 0; i < n / 2; ++i)
      frequency_.push_back(std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(n)));
  }
  template <class Real>
  void turn(const Real* x, Real* y, double position) const {
    const std::size_t half = frequency_.size();
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = position * frequency_[i];
      const auto c = static_cast<Real>(std::cos(angle)), s = static_cast<Real>(std::sin(angle));
      const Real first = x[i], second = x[i + half];
      y[i] = first * c - second * s;
      y[i + half] = second * c + first * s;
    }
  }

 private:
  std::vector<double> frequency_;
};

}  // namespace simrun::cpu
