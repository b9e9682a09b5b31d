#pragma once

#include <cstdint>
#include <string>

namespace simrun {

// Element types of tensors. `int64` is for token indices, `uint8` for dropout masks (one byte per element, as
// PyTorch keeps them).
enum class Dtype : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, int64, int32, uint8, fp4 };

// Bytes of one element; tf32 is a compute mode of fp32 storage, so 4. Of fp4, of which a byte holds two, the
// byte: stored_bytes() counts tensors of any type.
constexpr std::int64_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64:
    case Dtype::int64: return 8;
    case Dtype::fp32:
    case Dtype::tf32:
    case Dtype::int32: return 4;
    case Dtype::fp16:
    case Dtype::bf16: return 2;
    case Dtype::fp8:
    case Dtype::fp4:
    case Dtype::uint8: return 1;
  }
  return 0;
}

// Elements of a NormalFloat4 weight that share a scale (Dettmers et al. 2023, arXiv 2305.14314, section 3).
constexpr std::int32_t nf4_block = 64;

constexpr double element_bytes(Dtype dtype) {
  return dtype == Dtype::fp4 ? 0.5 : static_cast<double>(bytes_of(dtype));
}

// Of so many elements, in whole bytes.
constexpr std::int64_t stored_bytes(Dtype dtype, std::int64_t elements) {
  return dtype == Dtype::fp4 ? (elements + 1) / 2 : elements * bytes_of(dtype);
}

constexpr const char* to_string(Dtype dtype) {
  constexpr const char* names[] = {"fp64", "fp32",  "tf32",  "fp16",  "bf16",
                                   "fp8",  "int64", "int32", "uint8", "fp4"};
  return names[static_cast<int>(dtype)];
}

}  // namespace simrun
