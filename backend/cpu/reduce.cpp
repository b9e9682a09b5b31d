#include <limits>

#include "backend/cpu/experts.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"

namespace simrun::cpu {
namespace {

template <class Real>
void sum_squares(const KernelCall& call) {
  double total = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Real* values = reals<Real>(call.inputs[i]);
    for (const CountedRange& range : call.counted.at(i)) {
      // In blocks: a sum of sums loses less.
      constexpr std::int64_t block = 4096;
      double sum = 0;
      for (std::int64_t at = 0; at < range.count; at += block)
        sum += math<Real>().sum_squares(values + range.begin + at, std::min(block, range.count - at));
      total += sum * range.share;
    }
  }
  *reals<Real>(call.outputs[0]) = static_cast<Real>(total);
}

}  // namespace

template <class Real>
void run_reduce(const KernelCall& call) {
  if (call.what.function == Function::sum_squares) {
    if (call.what.constants.empty()) return sum_squares<Real>(call);
    const bool writes_state = call.outputs[0].buffer->category == Category::optimizer;
    return writes_state ? run_adafactor_factors<Real>(call) : run_adafactor_norms<Real>(call);
  }
  if (call.inputs[0].buffer->dtype == Dtype::int32) return run_expert_load<Real>(call);
  const Argument &in = call.inputs[0], &out = call.outputs[0];
  const bool takes_max = call.what.function == Function::max;
  Real* to = reals<Real>(out);
  if (!adds_to(call, out))
    std::fill_n(to, elements(out.part), takes_max ? -std::numeric_limits<Real>::infinity() : Real{0});
  const BroadcastIndex index(in, out);
  const Real* from = reals<Real>(in);
  const std::int64_t n = last_extent(in), count = elements(in.part);
  const std::int64_t columns = takes_max ? true_columns(call, in) : n;
  if (!takes_max && index.row() > 0) {  // sums of columns
    for (std::int64_t i = 0; i < count; i += index.row()) math<Real>().add(to, from + i, index.row());
    return;
  }
  if (takes_max && index.run() == n && columns > 0) {  // of each row
    for (std::int64_t i = 0; i < count; i += n)
      to[i / n] = std::max(to[i / n], math<Real>().maximum(from + i, columns));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % n >= columns) continue;
    Real& sum = to[index(i)];
    sum = takes_max ? std::max(sum, from[i]) : sum + from[i];
  }
}

template void run_reduce<float>(const KernelCall&);
template void run_reduce<double>(const KernelCall&);

}  // namespace simrun::cpu
