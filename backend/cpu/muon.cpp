#include <cmath>

#include "backend/cpu/kernels.h"

// Both ends of Newton-Schulz: matrices of an update to iterates whose rows are the fewer, and back into the
// rank's part of them.
namespace simrun::cpu {
namespace {

// What a rank has of a matrix as it lies in the update, [leading, trailing]; all of it, unless the operand
// says otherwise.
struct Block {
  DimPart leading, trailing;
};
Block block_of(const Argument& stored, const Argument& iterate, std::int64_t leading) {
  if (stored.part.size() == 3) return {stored.part[1], stored.part[2]};
  const std::int64_t trailing = iterate.part[1].extent * iterate.part[2].extent / leading;
  return {{0, leading, leading}, {0, trailing, trailing}};
}

// Calls visit(element of the stored matrices, element of the iterate) for one matrix after the other;
// constants[0] = the whole leading extent.
template <class Visit>
void for_each_element(const KernelCall& call, const Argument& stored, const Argument& iterate,
                      std::int64_t matrix, Visit visit) {
  const std::int64_t rows = iterate.part[1].extent, columns = iterate.part[2].extent;
  const auto leading = static_cast<std::int64_t>(call.what.constants.at(0));
  const bool is_turned = leading != rows;
  const Block block = block_of(stored, iterate, leading);
  std::int64_t at = matrix * block.leading.extent * block.trailing.extent;
  for (std::int64_t l = 0; l < block.leading.extent; ++l)
    for (std::int64_t t = 0; t < block.trailing.extent; ++t) {
      const std::int64_t i = block.leading.at(l), j = block.trailing.at(t);
      visit(at++, matrix * rows * columns + (is_turned ? j * columns + i : i * columns + j));
    }
}

}  // namespace

template <class Real>
void run_newton_schulz_start(const KernelCall& call) {
  const Argument& x = call.outputs[0];
  const Real* from = reals<Real>(call.inputs[0]);
  for (std::int64_t matrix = 0; matrix < x.part[0].extent; ++matrix) {
    double squares = 0;
    for_each_element(call, call.inputs[0], x, matrix, [&](std::int64_t i, std::int64_t) {
      squares += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    });
    const double norm = std::sqrt(squares) + 1e-7;
    for_each_element(call, call.inputs[0], x, matrix, [&](std::int64_t i, std::int64_t to) {
      reals<Real>(x)[to] = static_cast<Real>(static_cast<double>(from[i]) / norm);
    });
  }
}

template <class Real>
void run_newton_schulz_end(const KernelCall& call) {
  const Argument& x = call.inputs[0];
  const auto scale = static_cast<Real>(call.what.constants.at(1));
  for (std::int64_t matrix = 0; matrix < x.part[0].extent; ++matrix)
    for_each_element(call, call.outputs[0], x, matrix, [&](std::int64_t to, std::int64_t i) {
      reals<Real>(call.outputs[0])[to] = scale * reals<Real>(x)[i];
    });
}

template void run_newton_schulz_start<float>(const KernelCall&);
template void run_newton_schulz_start<double>(const KernelCall&);
template void run_newton_schulz_end<float>(const KernelCall&);
template void run_newton_schulz_end<double>(const KernelCall&);

}  // namespace simrun::cpu
