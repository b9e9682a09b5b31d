#include <vector>

#include "backend/cpu/kernels.h"

// Tensors put together along a dimension and taken apart: both directions, of the whole and of the first
// position.
namespace simrun::cpu {
namespace {

// Along the last dimension in which a part of as many dimensions differs from the whole.
std::size_t joined_dimension(const Argument& whole, const std::vector<Argument>& parts) {
  std::size_t joined = 0;
  for (const Argument& part : parts)
    for (std::size_t d = 0; part.part.size() == whole.part.size() && d < part.part.size(); ++d)
      if (part.buffer->dims[d].name != whole.buffer->dims[d].name) joined = std::max(joined, d);
  return joined;
}

// Where a part's elements lie in each of the `rows` rows that the whole has in front of the joined dimension.
// A part that lacks dimensions has one and the same for all rows, in front of all others'.
template <class Real>
struct Piece {
  Real* data = nullptr;
  std::int64_t begin = 0, count = 0;
  bool is_same = false;
};

template <class Real>
struct Joined {
  std::int64_t rows = 1, row = 1;  // how many, elements of each
  std::vector<Piece<Real>> pieces;
};

template <class Real>
Joined<Real> joined(const Argument& whole, const std::vector<Argument>& parts) {
  Joined<Real> result;
  const std::size_t along = joined_dimension(whole, parts);
  for (std::size_t d = 0; d < whole.part.size(); ++d)
    (d < along ? result.rows : result.row) *= whole.part[d].extent;
  std::int64_t begin = 0;
  for (const bool is_same : {true, false})
    for (const Argument& part : parts) {
      if ((part.part.size() < whole.part.size()) != is_same) continue;
      const std::int64_t count = elements(part.part) / (is_same ? 1 : result.rows);
      result.pieces.push_back({reals<Real>(part), begin, count, is_same});
      begin += count;
    }
  return result;
}

template <class Real>
void concatenate(const KernelCall& call) {
  const Joined<Real> of = joined<Real>(call.outputs[0], call.inputs);
  Real* to = reals<Real>(call.outputs[0]);
  for (std::int64_t row = 0; row < of.rows; ++row, to += of.row)
    for (const Piece<Real>& piece : of.pieces)
      std::copy_n(piece.data + (piece.is_same ? 0 : row * piece.count), piece.count, to + piece.begin);
}

template <class Real>
void concatenate_backward(const KernelCall& call) {
  const Joined<Real> of = joined<Real>(call.inputs[0], call.outputs);
  for (const Argument& output : call.outputs)
    if (!adds_to(call, output)) std::fill_n(reals<Real>(output), elements(output.part), Real{0});
  const Real* from = reals<Real>(call.inputs[0]);
  for (std::int64_t row = 0; row < of.rows; ++row, from += of.row)
    for (const Piece<Real>& piece : of.pieces) {
      Real* to = piece.data + (piece.is_same ? 0 : row * piece.count);
      for (std::int64_t i = 0; i < piece.count; ++i) to[i] += from[piece.begin + i];
    }
}

// Of [batch, positions, ..] the first position, or where the part has a dimension for them all behind it.
struct Selected {
  std::int64_t samples, whole, begin, count;
};
Selected selected(const Argument& whole, const Argument& part) {
  const std::int64_t samples = whole.part[0].extent, row = elements(whole.part) / samples;
  const std::int64_t position = row / whole.part[1].extent;
  const bool is_rest = part.part.size() == whole.part.size();
  return {samples, row, is_rest ? position : 0, is_rest ? row - position : position};
}

template <class Real>
void select(const KernelCall& call) {
  const Selected of = selected(call.inputs[0], call.outputs[0]);
  for (std::int64_t b = 0; b < of.samples; ++b)
    std::copy_n(reals<Real>(call.inputs[0]) + b * of.whole + of.begin, of.count,
                reals<Real>(call.outputs[0]) + b * of.count);
}

template <class Real>
void select_backward(const KernelCall& call) {
  const Selected of = selected(call.outputs[0], call.inputs[0]);
  std::fill_n(reals<Real>(call.outputs[0]), elements(call.outputs[0].part), Real{0});
  for (std::int64_t b = 0; b < of.samples; ++b)
    std::copy_n(reals<Real>(call.inputs[0]) + b * of.count, of.count,
                reals<Real>(call.outputs[0]) + b * of.whole + of.begin);
}

}  // namespace

template <class Real>
void run_join(const KernelCall& call) {
  switch (call.what.function) {
    case Function::concatenate: return concatenate<Real>(call);
    case Function::concatenate_backward: return concatenate_backward<Real>(call);
    case Function::select: return select<Real>(call);
    default: return select_backward<Real>(call);
  }
}

template void run_join<float>(const KernelCall&);
template void run_join<double>(const KernelCall&);

}  // namespace simrun::cpu
