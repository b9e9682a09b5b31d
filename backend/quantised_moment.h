#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

// Moments of 8 bits (Dettmers et al. 2022, arXiv 2110.02861): blocks of 256 elements of a flat buffer share a
// scale, the largest magnitude among them; a code is the nearest of 256 multiples of it, which lie denser
// towards zero (section 1.3, dynamic tree quantisation: 7 decades). A second moment that is not zero never
// becomes zero, by whose root the first is divided: it is at least the smallest positive multiple.
namespace simrun {

constexpr std::int64_t moment_block = 256;

// The multiples, ascending; of numbers that are never negative, or of all.
const std::array<double, 256>& moment_codes(bool is_signed);

// One moment of a flat buffer: as numbers, or as codes and scales.
template <class Real>
class StoredMoment {
 public:
  StoredMoment(Real* numbers, std::int64_t count) : numbers_(numbers), count_(count) {}
  StoredMoment(std::uint8_t* codes, Real* scales, bool is_signed, std::int64_t count)
      : codes_(codes), scales_(scales), values_(&moment_codes(is_signed)), count_(count) {}

  Real* numbers() const { return numbers_; }  // nullptr: codes

  using Block = std::array<double, moment_block>;
  void load(std::int64_t block, Block& to) const {
    const std::int64_t begin = block * moment_block;
    for (std::int64_t i = 0; i < size(block); ++i)
      to[static_cast<std::size_t>(i)] =
          codes_ == nullptr ? static_cast<double>(numbers_[begin + i])
                            : (*values_)[codes_[begin + i]] * static_cast<double>(scales_[block]);
  }
  void store(std::int64_t block, const Block& from) {
    const std::int64_t begin = block * moment_block;
    double largest = 0;
    for (std::int64_t i = 0; i < size(block); ++i) {
      const double value = from[static_cast<std::size_t>(i)];
      largest = std::max(largest, value < 0 ? -value : value);
      if (codes_ == nullptr) numbers_[begin + i] = static_cast<Real>(value);
    }
    if (codes_ == nullptr) return;
    scales_[block] = static_cast<Real>(largest);
    for (std::int64_t i = 0; i < size(block); ++i)
      codes_[begin + i] = largest == 0 ? 0 : nearest(from[static_cast<std::size_t>(i)] / largest);
  }

 private:
  std::int64_t size(std::int64_t block) const {
    return std::min(moment_block, count_ - block * moment_block);
  }
  // The lower one of two that are as near.
  std::uint8_t nearest(double share) const {
    const auto above = std::lower_bound(values_->begin(), values_->end(), share);
    if (above == values_->begin()) return 0;
    if (above == values_->end()) return 255;
    const bool is_least = above - values_->begin() == 1 && values_->front() == 0;
    const bool is_below = !is_least && share - *(above - 1) <= *above - share;
    return static_cast<std::uint8_t>(above - values_->begin() - (is_below ? 1 : 0));
  }

  Real* numbers_ = nullptr;
  std::uint8_t* codes_ = nullptr;
  Real* scales_ = nullptr;
  const std::array<double, 256>* values_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace simrun
