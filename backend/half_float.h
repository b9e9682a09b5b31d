#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// 16-bit floating-point numbers as they are stored: bfloat16 (a float's first 16 bits) and IEEE 754 binary16.
// From float they are rounded to the nearest, ties to even, as GPUs and PyTorch do; too large becomes
// infinite, what is not a number stays so.
namespace simrun {

inline std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);  // quiet
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t fp16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t size = bits & 0x7fffffff;
  constexpr std::uint32_t infinite = 0x7c00;
  if (std::isnan(value)) return sign | 0x7e00;
  // Below 2^-14 numbers are multiples of 2^-24; 1024 of them are the smallest of the others.
  if (size < 0x38800000)
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(size) * 0x1p24f)));
  const std::uint32_t rounded = (size + 0xfff + (size >> 13 & 1)) >> 13;
  const std::uint32_t half = rounded - (112u << 10);  // exponents count from 15, not from 127
  return static_cast<std::uint16_t>(sign | (half > infinite ? infinite : half));
}

inline float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest < 0x400)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f));
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  return std::bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
}

}  // namespace simrun
