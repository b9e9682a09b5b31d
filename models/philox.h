#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "models/philox_block.h"

// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3", section 3.3). Number i of a stream needs no number before it, so every rank draws its own part of a
// tensor, and the parts are the whole tensor's.
namespace simrun {

// A stream of random numbers by name: what is drawn (a parameter, an operator's mask) and a number (layer).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name, std::int64_t number) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001b3;
    hash ^= seed * 0x9E3779B97F4A7C15;
    key_ = {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
  }

  const PhiloxKey& key() const { return key_; }

  // Word i of the stream's part `group` (a step, or 0).
  std::uint32_t word(std::int64_t i, std::int64_t group = 0) const {
    return block(i / 4, group)[static_cast<std::size_t>(i % 4)];
  }
  // In [0, 1).
  double uniform(std::int64_t i, std::int64_t group = 0) const { return word(i, group) * 0x1p-32; }
  // Standard normal, by Box and Muller; numbers 2j and 2j + 1 are the two of one pair.
  double normal(std::int64_t i, std::int64_t group = 0) const {
    const PhiloxWords words = block(i / 2, group);
    const double radius = std::sqrt(-2 * std::log((words[0] + 1.0) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * words[1] * 0x1p-32;
    return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }

 private:
  PhiloxWords block(std::int64_t i, std::int64_t group) const {
    return philox_block(key_, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(group));
  }
  PhiloxKey key_{};
};

}  // namespace simrun
