#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

// What a kernel of the CUDA device is made of. A kernel is a functor over elements or over rows, written once
// for both compilers: nvcc makes a grid of it (backend/cuda/kernels.cu), tests run it on the host. C++17,
// since nvcc reads it under every CMake.
//
//   over elements   std::int64_t count; void operator()(std::int64_t element) const
//   over rows       std::int64_t count, scratch; void operator()(std::int64_t row, Lane& lane) const: several
//                   lanes share a row and `scratch` numbers of fast memory. Sums add in an order that the
//                   number of lanes alone decides; nothing is added atomically.
#ifdef __CUDACC__
#define SIMRUN_HD __host__ __device__
#else
#define SIMRUN_HD
#endif

namespace simrun::cuda {

// One lane alone: what a kernel computes, without sharing.
template <class Math>
class OneLane {
 public:
  explicit OneLane(Math* scratch) : scratch_(scratch) {}
  SIMRUN_HD std::int64_t index() const { return 0; }
  SIMRUN_HD std::int64_t count() const { return 1; }
  // Every lane of a row passes every one of these, in the same order. What was written before is seen behind.
  SIMRUN_HD void meet() const {}
  template <class Number>
  SIMRUN_HD Number sum(Number x) const {
    return x;
  }
  template <class Number>
  SIMRUN_HD Number maximum(Number x) const {
    return x;
  }
  SIMRUN_HD Math* scratch() const { return scratch_; }

 private:
  Math* scratch_;
};

// The upper half of a float, rounded to nearest, ties to even.
SIMRUN_HD inline std::uint16_t bf16_bits(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // not a number
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
SIMRUN_HD inline float from_bf16(std::uint16_t upper) {
  const std::uint32_t bits = static_cast<std::uint32_t>(upper) << 16;
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Numbers of a tensor. Kernels compute in Math (float or double); what computes in float may be stored as
// bf16.
template <class Math>
struct Reals {
  void* data = nullptr;
  bool is_bf16 = false;

  SIMRUN_HD Math operator[](std::int64_t i) const {
    if (std::is_same<Math, float>::value && is_bf16)
      return static_cast<Math>(from_bf16(static_cast<const std::uint16_t*>(data)[i]));
    return static_cast<const Math*>(data)[i];
  }
  SIMRUN_HD void set(std::int64_t i, Math x) const {
    if (std::is_same<Math, float>::value && is_bf16)
      static_cast<std::uint16_t*>(data)[i] = bf16_bits(static_cast<float>(x));
    else
      static_cast<Math*>(data)[i] = x;
  }
  SIMRUN_HD void add(std::int64_t i, Math x) const { set(i, (*this)[i] + x); }
  explicit SIMRUN_HD operator bool() const { return data != nullptr; }
};

constexpr int most_dimensions = 8;

// Where an element is whose indices are numbered row-major by `extents`: first + sum of index x stride.
// Strides of 0 repeat.
struct Places {
  std::int64_t first = 0;
  int dimensions = 0;
  std::int64_t extents[most_dimensions] = {}, strides[most_dimensions] = {};

  SIMRUN_HD std::int64_t operator()(std::int64_t i) const {
    std::int64_t place = first;
    for (int d = dimensions - 1; d >= 0; --d) {
      if (d == 0 || strides[d] != 0) place += (d == 0 ? i : i % extents[d]) * strides[d];
      i /= extents[d];
    }
    return place;
  }
};

}  // namespace simrun::cuda
