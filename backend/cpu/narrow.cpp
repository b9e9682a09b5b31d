#include <algorithm>

#include "backend/cpu/kernels.h"

// Casts to fp8 and fp4, whose numbers this device does not round: copies of the value for each product that
// reads one, and scales of 1.
namespace simrun::cpu {

bool is_narrow(const Buffer& buffer) { return buffer.dtype == Dtype::fp8 || buffer.dtype == Dtype::fp4; }

bool writes_narrow(const KernelCall& call) {
  const Argument &from = call.inputs[0], &to = call.outputs[0];
  return is_narrow(*to.buffer) || elements(to.part) != elements(from.part);
}

template <class Real>
void run_narrow_cast(const KernelCall& call) {
  const Real* from = reals<Real>(call.inputs[0]);
  for (const Argument& out : call.outputs) {
    Real* to = reals<Real>(out);
    if (is_narrow(*out.buffer))
      std::copy_n(from, elements(out.part), to);
    else  // delayed scaling: the largest values of all tensors that a pass casts
      std::fill_n(to, elements(out.part), Real{1});
  }
}

template void run_narrow_cast<float>(const KernelCall&);
template void run_narrow_cast<double>(const KernelCall&);

}  // namespace simrun::cpu
