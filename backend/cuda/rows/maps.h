#pragma once

#include <cmath>

#include "backend/cuda/rows/lanes.h"
#include "models/philox_block.h"

// Kernels over elements: copies, sums, dropout (MAP, COPY, pack and unpack in backend/operations.h).
namespace simrun::cuda {

template <class Math>
struct FillElement {
  std::int64_t count;
  Reals<Math> to;
  Math value;
  SIMRUN_HD void operator()(std::int64_t i) const { to.set(i, value); }
};

enum class Joining : std::uint8_t { assign, add, maximum };

// to[places] joins from[places]; both store the same type. Elements of other types than Math's are moved, not
// computed with.
template <class Math>
struct CopyElement {
  std::int64_t count;
  const void* from;
  void* to;
  int bytes;  // of an element; where numbers are joined: 2 is bf16
  Joining joining;
  Places read, written;

  SIMRUN_HD void operator()(std::int64_t i) const {
    const std::int64_t source = read(i), target = written(i);
    if (joining != Joining::assign) return join(source, target);
    switch (bytes) {
      case 1: return move<std::uint8_t>(source, target);
      case 2: return move<std::uint16_t>(source, target);
      case 4: return move<std::uint32_t>(source, target);
      default: move<std::uint64_t>(source, target);
    }
  }

 private:
  template <class Word>
  SIMRUN_HD void move(std::int64_t source, std::int64_t target) const {
    static_cast<Word*>(to)[target] = static_cast<const Word*>(from)[source];
  }
  SIMRUN_HD void join(std::int64_t source, std::int64_t target) const {
    const Reals<Math> in{const_cast<void*>(from), bytes == 2}, out{to, bytes == 2};
    const Math x = in[source], y = out[target];
    out.set(target, joining == Joining::add ? y + x : y < x ? x : y);
  }
};

// out = factor x in (a cast is a factor of 1).
template <class Math>
struct ScaleElement {
  std::int64_t count;
  Reals<Math> from, to;
  Math factor;
  SIMRUN_HD void operator()(std::int64_t i) const { to.set(i, from[i] * factor); }
};

// Floats to the places of bf16 numbers.
struct RoundElement {
  std::int64_t count;
  const float* from;
  std::uint16_t* to;
  Places written;
  SIMRUN_HD void operator()(std::int64_t i) const { to[written(i)] = bf16_bits(from[i]); }
};

// A stream of random numbers, as RandomStream (models/philox.h) draws them.
struct RandomKey {
  PhiloxKey key;
  std::int64_t group;  // the step
  SIMRUN_HD std::uint32_t word(std::int64_t i) const {
    return philox_block(key, static_cast<std::uint64_t>(i / 4), static_cast<std::uint64_t>(group))[i % 4];
  }
  SIMRUN_HD double uniform(std::int64_t i) const { return word(i) * (1.0 / 4294967296.0); }
};

constexpr int most_operands = 6;

// out = dropout(in0 + biases) + residuals; with dropout also the mask of what stays.
template <class Math>
struct AddElement {
  std::int64_t count;
  Reals<Math> first, to;
  int biases, residuals;
  Reals<Math> bias[most_operands], residual[most_operands];
  Places bias_places[most_operands];
  std::uint8_t* mask;  // nullptr: no dropout
  double dropout;
  RandomKey random;
  std::int64_t row;   // elements of a row
  Places whole_rows;  // number of a row's first element in the whole step

  SIMRUN_HD void operator()(std::int64_t i) const {
    Math branch = first[i], rest = 0;
    for (int b = 0; b < biases; ++b) branch += bias[b][bias_places[b](i)];
    for (int r = 0; r < residuals; ++r) rest += residual[r][i];
    if (mask != nullptr) {
      const bool stays = random.uniform(whole_rows(i / row) + i % row) >= dropout;
      mask[i] = stays ? 1 : 0;
      branch = stays ? branch * (1 / static_cast<Math>(1 - dropout)) : 0;
    }
    to.set(i, branch + rest);
  }
};

template <class Math>
struct AddBackwardElement {
  std::int64_t count;
  Reals<Math> from, to;
  const std::uint8_t* mask;
  Math kept;  // 1 / (1 - dropout)
  SIMRUN_HD void operator()(std::int64_t i) const { to.set(i, mask[i] != 0 ? from[i] * kept : 0); }
};

// out (+)= sum of all.
template <class Math>
struct SumElement {
  std::int64_t count;
  Reals<Math> to;
  bool adds;
  int inputs;
  Reals<Math> input[most_operands];
  SIMRUN_HD void operator()(std::int64_t i) const {
    Math sum = adds ? to[i] : 0;
    for (int k = 0; k < inputs; ++k) sum += input[k][i];
    to.set(i, sum);
  }
};

template <class Math>
struct LogLossElement {
  std::int64_t count;
  Reals<Math> sums, to;
  SIMRUN_HD void operator()(std::int64_t i) const { to.set(i, std::log(sums[2 * i]) - sums[2 * i + 1]); }
};

// Of packed q, k, v [batch, sequence, kv_heads, qkv, head_dim]: element pairs (i, i + half) of queries and
// keys turn; the rest is copied. Angles in double: at position 10^5 a float is off by 10^-2.
template <class Math>
struct RopeElement {
  std::int64_t count;
  Reals<Math> from, to;
  std::int64_t head_dim, half, qkv, heads;  // heads: kv_heads x qkv
  std::int64_t first_position, sequence;    // of the rank's part
  double base, direction;

  SIMRUN_HD void operator()(std::int64_t at) const {
    const std::int64_t row = at / head_dim, i = at % head_dim;
    if (row % qkv == qkv - 1 || i >= 2 * half) return to.set(at, from[at]);
    const std::int64_t pair = i % half;
    const double position = static_cast<double>(first_position + row / heads % sequence);
    const double angle = position * std::pow(base, -static_cast<double>(pair) / static_cast<double>(half));
    const Math c = static_cast<Math>(std::cos(angle)), s = static_cast<Math>(direction * std::sin(angle));
    to.set(at, i < half ? from[at] * c - from[at + half] * s : from[at] * c + from[at - half] * s);
  }
};

}  // namespace simrun::cuda
