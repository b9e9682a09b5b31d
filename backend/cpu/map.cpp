#include <algorithm>
#include <cmath>

#include "backend/cpu/experts.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"
#include "backend/cpu/packed_parts.h"
#include "models/philox.h"

namespace simrun::cpu {
namespace {

// Sums the operands of an `add` element by element: in0 and what is broadcast, then what is whole.
template <class Real>
class Summands {
 public:
  explicit Summands(const KernelCall& call) {
    for (std::size_t i = 1; i < call.inputs.size(); ++i) {
      const bool is_bias = call.inputs[i].part.size() < call.inputs[0].part.size();
      if (PackedPart::is_part(call.plan, *call.inputs[i].buffer, *call.inputs[0].buffer))
        parts_.push_back({reals<Real>(call.inputs[i]), PackedPart(call.inputs[i], call.inputs[0])});
      else if (is_bias)
        biases_.push_back({reals<Real>(call.inputs[i]), BroadcastIndex(call.inputs[0], call.inputs[i])});
      else
        residuals_.push_back(reals<Real>(call.inputs[i]));
    }
    first_ = reals<Real>(call.inputs[0]);
  }
  Real branch(std::int64_t i) const {
    Real sum = first_[i];
    for (const Bias& bias : biases_) sum += bias.values[bias.index(i)];
    for (const Part& part : parts_)
      if (const std::int64_t at = part.place(i); at >= 0) sum += part.values[at];
    return sum;
  }
  Real rest(std::int64_t i) const {
    Real sum = 0;
    for (const Real* residual : residuals_) sum += residual[i];
    return sum;
  }

 private:
  struct Bias {
    const Real* values;
    BroadcastIndex index;
  };
  struct Part {
    const Real* values;
    PackedPart place;
  };
  const Real* first_ = nullptr;
  std::vector<Part> parts_;
  std::vector<Bias> biases_;
  std::vector<const Real*> residuals_;
};

// Without dropout, row by row of the biases. False where an operand is neither whole nor a row.
template <class Real>
bool add_rows(const KernelCall& call) {
  const Argument &out = call.outputs[0], &first = call.inputs[0];
  const std::int64_t n = last_extent(out), count = elements(out.part);
  const auto is_row = [&](const Argument& in) {
    if (PackedPart::is_part(call.plan, *in.buffer, *first.buffer)) return false;
    return in.part.size() == first.part.size() || BroadcastIndex(first, in).row() == n;
  };
  if (!std::all_of(call.inputs.begin(), call.inputs.end(), is_row)) return false;
  for (std::int64_t i = 0; i < count; i += n) {
    Real* to = reals<Real>(out) + i;
    std::copy_n(reals<Real>(first) + i, n, to);
    for (std::size_t in = 1; in < call.inputs.size(); ++in) {
      const bool is_whole = call.inputs[in].part.size() == first.part.size();
      math<Real>().add(to, reals<Real>(call.inputs[in]) + (is_whole ? i : 0), n);
    }
  }
  return true;
}

template <class Real>
void add(const KernelCall& call) {
  const Argument& out = call.outputs[0];
  const Summands<Real> in(call);
  Real* to = reals<Real>(out);
  const std::int64_t n = last_extent(out), rows = rows_of(out);
  const double p = static_cast<double>(call.what.dropout);
  if (p == 0) {
    if (add_rows<Real>(call)) return;
    for (std::int64_t i = 0; i < rows * n; ++i) to[i] = in.branch(i) + in.rest(i);
    return;
  }
  auto* mask = static_cast<std::uint8_t*>(call.outputs[1].data);
  const WholeRows whole(call, out);
  const RandomStream stream(call.training.seed, call.what.label, call.what.layer);
  const Real kept = 1 / static_cast<Real>(1 - p);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = whole.begin(row);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t i = row * n + j;
      mask[i] = stream.uniform(begin + j, call.step) >= p ? 1 : 0;
      to[i] = (mask[i] != 0 ? in.branch(i) * kept : 0) + in.rest(i);
    }
  }
}

template <class Real>
void add_backward(const KernelCall& call) {
  const Real* from = reals<Real>(call.inputs[0]);
  const auto* mask = static_cast<const std::uint8_t*>(call.inputs[1].data);
  Real* to = reals<Real>(call.outputs[0]);
  const Real kept = 1 / static_cast<Real>(1 - static_cast<double>(call.what.dropout));
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = mask[i] != 0 ? from[i] * kept : 0;
}

template <class Real>
void sum_gradients(const KernelCall& call) {
  const Argument& out = call.outputs[0];
  Real* to = reals<Real>(out);
  const std::int64_t count = elements(out.part);
  std::size_t first = 0;
  if (!adds_to(call, out)) std::copy_n(reals<Real>(call.inputs[first++]), count, to);
  for (std::size_t in = first; in < call.inputs.size(); ++in)
    math<Real>().add(to, reals<Real>(call.inputs[in]), count);
}

template <class Real>
void log_loss(const KernelCall& call) {
  const Real* sums = reals<Real>(call.inputs[0]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = std::log(sums[2 * i]) - sums[2 * i + 1];
}

template <class Real>
void scaled_copy(const KernelCall& call, Real factor) {
  const Real* from = reals<Real>(call.inputs[0]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

// The gradient of what is at the bound passes, that of what is beyond it does not.
template <class Real>
void clip(const KernelCall& call) {
  const auto bound = static_cast<Real>(call.what.constants.at(0));
  const bool forward = call.what.function == Function::clip;
  const Real *from = reals<Real>(call.inputs[0]), *x = reals<Real>(call.inputs[forward ? 0 : 1]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = forward ? std::clamp(x[i], -bound, bound) : std::abs(x[i]) <= bound ? from[i] : Real{0};
}

}  // namespace

template <class Real>
void run_map(const KernelCall& call) {
  switch (call.what.function) {
    case Function::add: return add<Real>(call);
    case Function::add_backward: return add_backward<Real>(call);
    case Function::sum_gradients: return sum_gradients<Real>(call);
    case Function::log_loss: return log_loss<Real>(call);
    case Function::cast:
      if (!call.what.constants.empty()) return run_newton_schulz_end<Real>(call);
      return writes_narrow(call) ? run_narrow_cast<Real>(call) : scaled_copy<Real>(call, 1);
    case Function::scale:
      if (call.what.phase == Phase::optimizer) return run_newton_schulz_start<Real>(call);
      // Without a factor: scales of fp8, of the largest values.
      return scaled_copy<Real>(
          call, call.what.constants.empty() ? Real{1} : static_cast<Real>(call.what.constants[0]));
    case Function::flash: return run_attention_join<Real>(call);
    case Function::rope:
    case Function::rope_backward: return run_rope<Real>(call);
    case Function::sigmoid_gate:
    case Function::sigmoid_gate_backward: return run_sigmoid_gate<Real>(call);
    case Function::scale_queries: return run_scale_queries<Real>(call);
    case Function::clip:
    case Function::clip_backward: return clip<Real>(call);
    case Function::scale_rows:
    case Function::weigh_rows: return run_weigh_rows<Real>(call);
    case Function::scale_rows_backward:
    case Function::weigh_rows_backward: return run_weigh_rows_backward<Real>(call);
    case Function::dispatch_masks: return run_dispatch_masks<Real>(call);
    case Function::dispatch_masks_backward: return run_dispatch_masks_backward<Real>(call);
    case Function::mla_rope:
    case Function::mla_rope_backward: return run_latent_rope<Real>(call);
    case Function::split:
      return position_of(call, call.inputs[0], "qkv") >= 0 ? run_split_heads<Real>(call)
                                                           : run_split<Real>(call);
    case Function::concat:
      return position_of(call, call.outputs[0], "qkv") >= 0 ? run_concat_heads<Real>(call)
                                                            : run_split<Real>(call);
    case Function::concatenate:
    case Function::concatenate_backward:
    case Function::select:
    case Function::select_backward: return run_join<Real>(call);
    default: return run_activation<Real>(call);
  }
}

template <class Real>
void run_copy(const KernelCall& call) {
  if (PackedPart::is_part(call.plan, *call.outputs[0].buffer, *call.inputs[0].buffer))
    return run_copy_of_part<Real>(call);
  scaled_copy<Real>(call, 1);
}

template void run_copy<float>(const KernelCall&);
template void run_copy<double>(const KernelCall&);
template void run_map<float>(const KernelCall&);
template void run_map<double>(const KernelCall&);

}  // namespace simrun::cpu
