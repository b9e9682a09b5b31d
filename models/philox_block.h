#pragma once

#include <array>
#include <cstdint>

// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3) in C++17,
// for the host and for GPU kernels.
namespace simrun {

using PhiloxWords = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxWords philox(PhiloxWords counter, PhiloxKey key) {
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

// Four words of a stream: block i of its part `group`.
constexpr PhiloxWords philox_block(PhiloxKey key, std::uint64_t i, std::uint64_t group) {
  return philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                 static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32)},
                key);
}

}  // namespace simrun
