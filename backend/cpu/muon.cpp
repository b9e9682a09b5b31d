#include <cmath>

#include "backend/cpu/kernels.h"

// Both ends of Newton-Schulz: matrices of a flat update to iterates whose rows are the fewer, and back.
namespace simrun::cpu {
namespace {

// Calls visit(element of the flat update, element of the iterate) for one matrix after the other;
// constants[0] = its leading extent in the update.
template <class Visit>
void for_each_element(const KernelCall& call, const Argument& iterate, std::int64_t matrix, Visit visit) {
  const std::int64_t rows = iterate.part[1].extent, columns = iterate.part[2].extent;
  const auto leading = static_cast<std::int64_t>(call.what.constants.at(0));
  const std::int64_t trailing = rows * columns / leading, begin = matrix * rows * columns;
  const bool is_turned = leading != rows;
  for (std::int64_t i = 0; i < leading; ++i)
    for (std::int64_t j = 0; j < trailing; ++j)
      visit(begin + i * trailing + j, begin + (is_turned ? j * columns + i : i * columns + j));
}

}  // namespace

template <class Real>
void run_newton_schulz_start(const KernelCall& call) {
  const Argument& x = call.outputs[0];
  const Real* from = reals<Real>(call.inputs[0]);
  for (std::int64_t matrix = 0; matrix < x.part[0].extent; ++matrix) {
    double squares = 0;
    for_each_element(call, x, matrix, [&](std::int64_t i, std::int64_t) {
      squares += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    });
    const double norm = std::sqrt(squares) + 1e-7;
    for_each_element(call, x, matrix, [&](std::int64_t i, std::int64_t to) {
      reals<Real>(x)[to] = static_cast<Real>(static_cast<double>(from[i]) / norm);
    });
  }
}

template <class Real>
void run_newton_schulz_end(const KernelCall& call) {
  const Argument& x = call.inputs[0];
  const auto scale = static_cast<Real>(call.what.constants.at(1));
  for (std::int64_t matrix = 0; matrix < x.part[0].extent; ++matrix)
    for_each_element(call, x, matrix, [&](std::int64_t to, std::int64_t i) {
      reals<Real>(call.outputs[0])[to] = scale * reals<Real>(x)[i];
    });
}

template void run_newton_schulz_start<float>(const KernelCall&);
template void run_newton_schulz_start<double>(const KernelCall&);
template void run_newton_schulz_end<float>(const KernelCall&);
template void run_newton_schulz_end<double>(const KernelCall&);

}  // namespace simrun::cpu
