#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3", section 3.3). Number i of a stream needs no number before it, so every rank draws its own part of a
// tensor, and the parts are the whole tensor's.
namespace simrun {

using PhiloxWords = std::array<std::uint32_t, 4>;

constexpr PhiloxWords philox(PhiloxWords counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

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
    const auto low = static_cast<std::uint64_t>(i), high = static_cast<std::uint64_t>(group);
    return philox({static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                   static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)},
                  key_);
  }
  std::array<std::uint32_t, 2> key_{};
};

}  // namespace simrun
