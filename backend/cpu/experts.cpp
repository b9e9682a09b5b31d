#include "backend/cpu/experts.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "backend/cpu/kernels.h"
#include "backend/row_copies.h"

// Rows of tokens to their experts and back. Where a kernel meets an experts' buffer otherwise, it runs expert
// by expert: a grouped product is one product per expert.
namespace simrun::cpu {
namespace {

// Where tokens of the microbatch are among those that a rank has in a tensor [batch, sequence, ...].
class TokenPlaces {
 public:
  explicit TokenPlaces(const Argument& tokens) : batch_(tokens.part[0]), sequence_(tokens.part[1]) {}
  std::int64_t count() const { return batch_.extent * sequence_.extent; }
  std::int64_t operator()(std::int64_t token) const {
    const std::int64_t b = local_of(batch_, token / sequence_.whole);
    return b * sequence_.extent + local_of(sequence_, token % sequence_.whole);
  }

 private:
  DimPart batch_, sequence_;
};

// Weights of choices [token, slot] or, as a mask, [token, place with an expert], of whose places with one
// expert a token has one at most. A weight of 0 there cannot be told from none: what it stands for has no
// gradient either, as a score of 0 has none.
template <class Real>
class Weights {
 public:
  Weights(const KernelCall& call, const Argument& argument)
      : values_(reals<Real>(argument)), extent_(last_extent(argument)) {
    if (position_of(call, argument, "mask_places") >= 0) places_ = std::int64_t(call.what.constants.at(3));
  }
  // Of a choice of the token with that number on the rank; -1: the mask has none.
  std::int64_t place(std::int64_t token, const ExpertRow& choice) const {
    if (places_ == 0) return token * extent_ + choice.slot;
    const std::int64_t begin = token * extent_ + choice.expert * places_;
    const Real* found =
        std::find_if(values_ + begin, values_ + begin + places_, [](Real x) { return x != 0; });
    return found == values_ + begin + places_ ? -1 : found - values_;
  }
  Real at(std::int64_t place) const { return place < 0 ? Real{0} : values_[place]; }
  Real operator()(std::int64_t token, const ExpertRow& choice) const { return at(place(token, choice)); }

 private:
  const Real* values_;
  std::int64_t extent_, places_ = 0;  // places with each expert
};

// Numbers of the rows of each token's choices, [token, slot]; -1: another rank has it, or nobody.
std::vector<std::int64_t> rows_by_choice(const Argument& rows, const TokenPlaces& places, std::int64_t topk) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(places.count() * topk), -1);
  for (std::int64_t i = 0; i < rows.rows->size(); ++i) {
    const ExpertRow& row = rows.rows->rows()[static_cast<std::size_t>(i)];
    if (row.token != no_token) numbers[static_cast<std::size_t>(places(row.token) * topk + row.slot)] = i;
  }
  return numbers;
}

// That a dispatch, or its gradient, is given: its last input.
template <class Real>
std::optional<Weights<Real>> dispatch_mask_of(const KernelCall& call) {
  if (call.inputs.size() < 3) return std::nullopt;
  return Weights<Real>(call, call.inputs[2]);
}

template <class Real>
void scale(Real* row, std::int64_t n, Real by) {
  for (std::int64_t i = 0; i < n; ++i) row[i] *= by;
}

template <class Real>
void dispatch(const KernelCall& call) {
  const Argument &tokens = call.inputs[0], &out = call.outputs[0];
  const TokenPlaces places(tokens);
  const std::int64_t n = last_extent(tokens);
  const Real* from = reals<Real>(tokens);
  Real* to = reals<Real>(out);
  const std::optional<Weights<Real>> mask = dispatch_mask_of<Real>(call);
  for (const ExpertRow& row : out.rows->rows()) {
    if (row.token == no_token)
      std::fill_n(to, n, Real{0});
    else
      std::copy_n(from + places(row.token) * n, n, to);
    if (mask && row.token != no_token) scale(to, n, (*mask)(places(row.token), row));
    to += n;
  }
}

// Each token's rows summed in the order of its choices; `weights`: of the choices, or 1.
template <class Real>
void sum_rows(const Argument& rows, const std::optional<Weights<Real>>& weights, std::int64_t topk,
              const Argument& out) {
  const TokenPlaces places(out);
  const std::int64_t n = last_extent(out);
  const std::vector<std::int64_t> numbers = rows_by_choice(rows, places, topk);
  Real* to = reals<Real>(out);
  std::fill_n(to, places.count() * n, Real{0});
  for (std::size_t choice = 0; choice < numbers.size(); ++choice) {
    if (numbers[choice] < 0) continue;
    const Real* from = reals<Real>(rows) + numbers[choice] * n;
    const std::int64_t token = static_cast<std::int64_t>(choice) / topk;
    const ExpertRow& row = rows.rows->rows()[static_cast<std::size_t>(numbers[choice])];
    const Real weight = weights ? (*weights)(token, row) : 1;
    Real* sum = to + token * n;
    for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * from[i];
  }
}

// Rows of a node, of a GPU and of experts are the same choices in the same order. From the former to the
// latter a row is repeated; back, those made of one are summed, each of one choice times its weight, [row,
// slot], if there are any. Of numbers by slot, an expert's row has the one of its choice.
bool takes_slots(const Argument& of_experts, const Argument& by_slot) {
  return last_extent(of_experts) == 1 && last_extent(by_slot) > 1;
}

template <class Real>
void repeat_rows(const Argument& from, const Argument& to) {
  const std::int64_t n = last_extent(from), count = last_extent(to);
  const bool of_slot = takes_slots(to, from);
  for (std::size_t i = 0; i < from.rows->choices().size(); ++i) {
    const std::int64_t slot = of_slot ? from.rows->choices()[i].slot : 0;
    std::copy_n(reals<Real>(from) + from.rows->row_of_choice()[i] * n + slot, count,
                reals<Real>(to) + to.rows->row_of_choice()[i] * count);
  }
}

template <class Real>
void sum_repeated(const Argument& from, const Argument* weights, const Argument& to) {
  const std::int64_t n = last_extent(from), all = last_extent(to);
  const bool of_slot = takes_slots(from, to);
  std::fill_n(reals<Real>(to), to.rows->size() * all, Real{0});
  std::vector<bool> added(static_cast<std::size_t>(from.rows->size()), false);
  for (std::size_t i = 0; i < from.rows->choices().size(); ++i) {
    const std::int64_t row = from.rows->row_of_choice()[i], of = to.rows->row_of_choice()[i];
    if (added[static_cast<std::size_t>(row)]) continue;
    added[static_cast<std::size_t>(row)] = true;
    const Real weight =
        weights == nullptr ? 1
                           : reals<Real>(*weights)[of * last_extent(*weights) + from.rows->choices()[i].slot];
    const Real* x = reals<Real>(from) + row * n;
    Real* sum = reals<Real>(to) + of * all + (of_slot ? from.rows->choices()[i].slot : 0);
    for (std::int64_t j = 0; j < n; ++j) sum[j] += weight * x[j];
  }
}

// in = gradient of the sums, rows, weights by row; a gradient that is not wanted has no output.
template <class Real>
void sum_repeated_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &rows = call.inputs[1], &weights = call.inputs[2];
  const std::int64_t n = last_extent(rows), slots = last_extent(weights);
  Real *of_rows = nullptr, *of_weights = nullptr;
  for (const Argument& output : call.outputs)
    (position_of(call, output, "capacity") == 1 ? of_rows : of_weights) = reals<Real>(output);
  if (of_weights != nullptr) std::fill_n(of_weights, gradient.rows->size() * slots, Real{0});
  for (std::size_t i = 0; i < rows.rows->choices().size(); ++i) {
    const std::int64_t row = rows.rows->row_of_choice()[i], of = gradient.rows->row_of_choice()[i];
    const std::int64_t choice = of * slots + rows.rows->choices()[i].slot;
    const Real *x = reals<Real>(rows) + row * n, *g = reals<Real>(gradient) + of * n;
    Real product = 0;
    for (std::int64_t j = 0; j < n; ++j) product += g[j] * x[j];
    if (of_weights != nullptr) of_weights[choice] = product;
    for (std::int64_t j = 0; of_rows != nullptr && j < n; ++j)
      of_rows[row * n + j] = reals<Real>(weights)[choice] * g[j];
  }
}

template <class Real>
void combine_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &rows = call.inputs[1];
  const TokenPlaces places(gradient);
  const std::int64_t n = last_extent(gradient);
  const Weights<Real> weights(call, call.inputs[2]);
  // A gradient that is not wanted has no output.
  Real *of_rows = nullptr, *of_weights = nullptr;
  for (const Argument& output : call.outputs) {
    (output.rows != nullptr ? of_rows : of_weights) = reals<Real>(output);
    if (output.rows == nullptr) std::fill_n(of_weights, elements(output.part), Real{0});
  }
  std::int64_t begin = 0;
  for (const ExpertRow& row : rows.rows->rows()) {
    const Real* x = reals<Real>(rows) + begin;
    if (row.token == no_token) {
      if (of_rows != nullptr) std::fill_n(of_rows + begin, n, Real{0});
    } else {
      const std::int64_t token = places(row.token), at = weights.place(token, row);
      const Real* g = reals<Real>(gradient) + token * n;
      const Real weight = weights.at(at);
      Real product = 0;
      for (std::int64_t i = 0; i < n; ++i) product += g[i] * x[i];
      if (of_weights != nullptr && at >= 0) of_weights[at] = product;
      for (std::int64_t i = 0; of_rows != nullptr && i < n; ++i) of_rows[begin + i] = weight * g[i];
    }
    begin += n;
  }
}

// The part of an operand that is one expert's, as a tensor of that expert alone.
template <class Real>
Argument of_expert(const KernelCall& call, const Argument& argument, std::int64_t expert) {
  if (position_of(call, argument, "experts") != 0) return argument;
  Argument part = argument;
  part.rows = nullptr;
  std::int64_t begin = 0;
  if (argument.rows != nullptr) {
    const std::int64_t rows = argument.rows->begin(expert + 1) - argument.rows->begin(expert);
    begin = argument.rows->begin(expert) * width_of_rows(argument);
    part.of_expert = argument.rows->rows().data() + argument.rows->begin(expert);
    part.part[1] = {0, rows, rows};
    part.part[0] = argument.rows->experts();
  } else {
    begin = expert * elements(argument.part) / argument.part[0].extent;
  }
  part.part[0].first += expert;
  part.part[0].extent = 1;
  const bool is_mask = argument.buffer->dtype == Dtype::uint8;
  part.data = is_mask ? static_cast<void*>(static_cast<std::uint8_t*>(argument.data) + begin)
                      : reals<Real>(argument) + begin;
  return part;
}

}  // namespace

bool has_rows(const KernelCall& call) {
  const auto is_of_rows = [](const Argument& argument) { return argument.rows != nullptr; };
  return std::any_of(call.inputs.begin(), call.inputs.end(), is_of_rows) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), is_of_rows);
}

template <class Real>
void run_token_rows(const KernelCall& call) {
  const bool forward = call.what.opcode == Opcode::gather;
  const Argument &in = call.inputs[0], &out = call.outputs[0];
  if (in.rows != nullptr && out.rows != nullptr) {
    if (!forward && call.inputs.size() > 1) return sum_repeated_backward<Real>(call);
    const Argument* weights = call.inputs.size() > 1 ? &call.inputs[1] : nullptr;
    return forward == (call.what.function == Function::dispatch) ? repeat_rows<Real>(in, out)
                                                                 : sum_repeated<Real>(in, weights, out);
  }
  if (call.what.function == Function::dispatch)
    return forward ? dispatch<Real>(call)
                   : sum_rows<Real>(in, dispatch_mask_of<Real>(call), last_extent(call.inputs[1]), out);
  if (!forward) return combine_backward<Real>(call);
  std::optional<Weights<Real>> weights;  // else they were where a GPU summed its experts' rows
  if (call.inputs.size() > 2) weights.emplace(call, call.inputs[1]);
  sum_rows<Real>(in, weights, last_extent(call.inputs.back()), out);
}

template <class Real>
void run_by_expert(const KernelCall& call, void (*kernel)(const KernelCall&)) {
  const ExpertRows* rows = nullptr;
  for (const std::vector<Argument>* operands : {&call.inputs, &call.outputs})
    for (const Argument& operand : *operands)
      if (operand.rows != nullptr) rows = operand.rows.get();
  assert(rows != nullptr && "a call by expert has rows of experts");
  for (std::int64_t expert = 0; expert < rows->experts().extent; ++expert) {
    KernelCall one = call;
    for (Argument& input : one.inputs) input = of_expert<Real>(call, input, expert);
    for (Argument& output : one.outputs) output = of_expert<Real>(call, output, expert);
    kernel(one);
  }
}

template void run_token_rows<float>(const KernelCall&);
template void run_token_rows<double>(const KernelCall&);
template void run_by_expert<float>(const KernelCall&, void (*)(const KernelCall&));
template void run_by_expert<double>(const KernelCall&, void (*)(const KernelCall&));

}  // namespace simrun::cpu
