#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backend/operations.h"

// The CPU's kernels, one per opcode, for Real = float and double; what they compute is in
// backend/operations.h.
namespace simrun::cpu {

template <class Real>
void run_input(const KernelCall& call);
template <class Real>
void run_images(const KernelCall& call);  // INPUTs of samples that are no sequences
template <class Real>
void run_gemm(const KernelCall& call);
template <class Real>
void run_attention(const KernelCall& call);
template <class Real>
void run_attention_backward(const KernelCall& call);
template <class Real>
void run_attention_block(const KernelCall& call);  // Instruction::part
template <class Real>
void run_attention_block_backward(const KernelCall& call);
template <class Real>
void run_attention_join(const KernelCall& call);  // MAP flash
template <class Real>
void run_split_heads(const KernelCall& call);  // MAP split of packed q, k, v
template <class Real>
void run_concat_heads(const KernelCall& call);
template <class Real>
void run_select_heads(const KernelCall& call);  // COPY between rows of all heads and a rank's heads
template <class Real>
void run_norm(const KernelCall& call);
template <class Real>
void run_norm_backward(const KernelCall& call);
template <class Real>
void run_map(const KernelCall& call);
template <class Real>
void run_copy(const KernelCall& call);  // of operands whose dimensions have other names
template <class Real>
void run_activation(const KernelCall& call);  // MAPs of one activation function and their gradients
template <class Real>
void run_rope(const KernelCall& call);
template <class Real>
void run_scale_queries(const KernelCall& call);
template <class Real>
void run_latent_rope(const KernelCall& call);  // rope of latent attention's queries, mla_rope
template <class Real>
void run_split(const KernelCall& call);  // MAPs split and concat along the last dimension
template <class Real>
void run_join(const KernelCall& call);  // MAPs concatenate, select and their backwards
template <class Real>
void run_reduce(const KernelCall& call);
template <class Real>
void run_gather(const KernelCall& call);
template <class Real>
void run_scatter(const KernelCall& call);
template <class Real>
void run_cross_entropy(const KernelCall& call);
template <class Real>
void run_cross_entropy_backward(const KernelCall& call);
template <class Real>
void run_optimizer(const KernelCall& call);
template <class Real>
void run_adafactor(const KernelCall& call);
template <class Real>
void run_adafactor_factors(const KernelCall& call);  // REDUCEs in front of it
template <class Real>
void run_adafactor_norms(const KernelCall& call);
template <class Real>
void run_newton_schulz_start(const KernelCall& call);  // MAPs of Muon
// MAP `cast` to or between fp8 and fp4.
bool is_narrow(const Buffer& buffer);
bool writes_narrow(const KernelCall& call);  // or, of copies that nobody reads, the largest values alone
template <class Real>
void run_narrow_cast(const KernelCall& call);
template <class Real>
void run_newton_schulz_end(const KernelCall& call);
template <class Real>
void run_conv(const KernelCall& call);
template <class Real>
void run_pool(const KernelCall& call);
template <class Real>
void run_pool_backward(const KernelCall& call);
template <class Real>
void run_batch_norm(const KernelCall& call);
template <class Real>
void run_batch_norm_backward(const KernelCall& call);
template <class Real>
void run_lstm(const KernelCall& call);
template <class Real>
void run_lstm_backward(const KernelCall& call);
template <class Real>
void run_recurrent_weight_gradient(const KernelCall& call);  // GEMM of an LSTM
template <class Real>
void run_scan(const KernelCall& call);
template <class Real>
void run_scan_backward(const KernelCall& call);
template <class Real>
void run_delta_rule(const KernelCall& call);  // SCANs of Gated DeltaNet layers
template <class Real>
void run_delta_rule_backward(const KernelCall& call);
template <class Real>
void run_content_attention(const KernelCall& call);  // ATTENTION over values that are no heads'
template <class Real>
void run_content_attention_backward(const KernelCall& call);

// ---- operands ----

template <class Real>
Real* reals(const Argument& argument) {
  return static_cast<Real*>(argument.data);
}

inline std::int64_t last_extent(const Argument& argument) { return argument.part.back().extent; }
inline std::int64_t rows_of(const Argument& argument) {
  return elements(argument.part) / last_extent(argument);
}

// Place of a dimension in an argument; -1: it lacks it.
inline int position_of(const KernelCall& call, const Argument& argument, std::string_view name) {
  const auto& dims = argument.buffer->dims;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (call.plan.dimension_names[dims[d].name] == name) return static_cast<int>(d);
  return -1;
}

// Of a dimension that it has.
inline const DimPart& part_named(const KernelCall& call, const Argument& argument, std::string_view name) {
  return argument.part[static_cast<std::size_t>(position_of(call, argument, name))];
}

// Columns of the rank's part of the vocabulary that are no padding.
inline std::int64_t true_columns(const KernelCall& call, const Argument& argument) {
  const DimPart& part = argument.part.back();
  const std::uint16_t name = argument.buffer->dims.back().name;
  const std::int64_t size =
      name < call.plan.dimension_sizes.size() ? call.plan.dimension_sizes[name] : part.whole;
  return std::clamp<std::int64_t>(size - part.first, 0, part.extent);
}

// Whether an attention's values, two operands behind its queries, are no heads' [batch, sequence, width].
inline bool has_content_values(const KernelCall& call, std::size_t queries) {
  return call.inputs.size() > queries + 2 && call.inputs[queries + 2].part.size() == 3 &&
         call.inputs[queries].part.size() == 5;
}

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

// x sigmoid(x).
template <class Real>
struct Silu {
  static Real value(Real x) { return x * sigmoid(x); }
  static Real slope(Real x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }
};

template <class Real>
struct Sigmoid {
  static Real value(Real x) { return sigmoid(x); }
  static Real slope(Real x) { return sigmoid(x) * (1 - sigmoid(x)); }
};

// Whether an output is added to.
inline bool adds_to(const KernelCall& call, const Argument& output) {
  return call.what.accumulate && output.buffer->category == Category::gradients;
}

// By what an optimizer scales the gradients: their norm is the last input.
template <class Real>
double clip_factor(const KernelCall& call) {
  const std::vector<double>& constants = call.what.constants;
  if (constants.empty() || constants[0] <= 0) return 1;
  const double norm = std::sqrt(static_cast<double>(*reals<Real>(call.inputs.back())));
  return std::min(1.0, constants[0] / (norm + 1e-6));
}

// For each element of an argument, where the element of `of` is that has the same indices in the dimensions
// of `of`, which the argument has too.
class BroadcastIndex {
 public:
  BroadcastIndex(const Argument& argument, const Argument& of);
  std::int64_t operator()(std::int64_t i) const {
    if (is_suffix_) return i % size_;  // NOLINT(clang-analyzer-core.DivideZero): no extent is 0
    if (is_prefix_) return i / rest_;
    std::int64_t index = 0;
    for (std::size_t d = extents_.size(); d-- > 0; i /= extents_[d]) index += i % extents_[d] * strides_[d];
    return index;
  }
  // Elements of `of` where they are those of every row of the argument, in order; 0 where not.
  std::int64_t row() const { return is_suffix_ ? size_ : 0; }
  // Neighbours in the argument that share one element of `of`; 0 where they are not neighbours.
  std::int64_t run() const { return is_prefix_ ? rest_ : 0; }

 private:
  bool is_suffix_ = false, is_prefix_ = false;
  std::int64_t size_ = 1, rest_ = 1;
  std::vector<std::int64_t> extents_, strides_;
};

// Numbers of an argument's elements in the whole tensor of the step, samples of all microbatches behind one
// another: what dropout is drawn by. Row r is [whole_begin(r), + last extent). An expert's row is the one of
// its token among all experts'.
class WholeRows {
 public:
  WholeRows(const KernelCall& call, const Argument& argument);
  std::int64_t begin(std::int64_t row) const;

 private:
  TensorPart part_;
  std::vector<std::int64_t> extents_;
  const ExpertRow* of_expert_;
  std::int64_t first_token_ = 0;  // of the microbatch
};

}  // namespace simrun::cpu
