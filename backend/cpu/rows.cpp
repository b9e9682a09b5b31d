#include <algorithm>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"
#include "backend/text_data.h"
#include "models/philox.h"

// Kernels over rows of tokens: data, table look-ups, losses.
namespace simrun::cpu {
namespace {

const std::int64_t* indices_of(const Argument& argument) {
  return static_cast<const std::int64_t*>(argument.data);
}

// Place in the sequence of a row of [batch, sequence, hidden].
std::int64_t position_of_row(const KernelCall& call, const Argument& rows, std::int64_t row) {
  const DimPart& sequence = part_named(call, rows, "sequence");
  return sequence.at(row % sequence.extent);
}

// The row of a table, in this rank's part of it, that row `row` of an activation looks up; -1: another rank
// has it.
std::int64_t table_row(const KernelCall& call, const Argument& table, const Argument& rows,
                       const Argument* indices, std::int64_t row) {
  std::int64_t at = 0;
  if (indices != nullptr)
    at = indices_of(*indices)[row];
  else
    at = position_of_row(call, rows, row) + static_cast<std::int64_t>(call.what.constants.at(0));
  at -= table.part[0].first;
  return at >= 0 && at < table.part[0].extent ? at : -1;
}

// Indices of so many kinds that are no words: one per sample, or per place in it.
void draw_kinds(const KernelCall& call, std::uint32_t kinds) {
  const Argument& out = call.outputs[0];
  const DimPart &batch = part_named(call, out, "batch"), &places = out.part.back();
  const bool is_per_sample = out.part.size() < 2;
  const RandomStream stream(call.training.seed, call.what.label, 0);
  auto* to = static_cast<std::int64_t*>(out.data);
  for (std::int64_t b = 0; b < batch.extent; ++b) {
    const std::int64_t sample = call.microbatch * batch.whole + batch.at(b);
    for (std::int64_t i = 0; i < (is_per_sample ? 1 : places.extent); ++i) {
      const std::int64_t place = is_per_sample ? sample : sample * places.whole + places.at(i);
      *to++ = stream.word(place, call.step) % kinds;
    }
  }
}

}  // namespace

template <class Real>
void run_input(const KernelCall& call) {
  const Argument& out = call.outputs[0];
  const std::vector<double>& constants = call.what.constants;
  if (constants.size() > 1) return draw_kinds(call, static_cast<std::uint32_t>(constants[1]));
  if (out.buffer->dtype != Dtype::int64 || out.part.size() < 2) return run_images<Real>(call);
  const auto vocab = std::find(call.plan.dimension_names.begin(), call.plan.dimension_names.end(), "vocab");
  const auto size = static_cast<std::uint32_t>(
      call.plan.dimension_sizes[static_cast<std::size_t>(vocab - call.plan.dimension_names.begin())]);
  const DimPart &batch = part_named(call, out, "batch"), &sequence = out.part[1];
  const std::int64_t ahead = !constants.empty()            ? static_cast<std::int64_t>(constants[0])
                             : call.what.label == "labels" ? 1
                                                           : 0;
  const bool is_source = call.what.label == "encoder_tokens";
  const RandomStream stream(call.training.seed, is_source ? "source text" : "text", 0);
  const TextData* text = call.training.text;
  const std::int64_t samples = call.plan.job.microbatches * batch.whole;  // of a step
  auto* to = static_cast<std::int64_t*>(out.data);
  for (std::int64_t b = 0; b < batch.extent; ++b) {
    const std::int64_t sample = call.microbatch * batch.whole + batch.first + b;
    for (std::int64_t s = 0; s < sequence.extent; ++s) {
      const std::int64_t place = sequence.at(s) + ahead;
      *to++ = text == nullptr
                  ? stream.word(sample * (sequence.whole + 1) + place, call.step) % size
                  : text->token(call.training.seed, call.step * samples + sample, place, sequence.whole);
    }
  }
}

template <class Real>
void run_gather(const KernelCall& call) {
  const Argument &table = call.inputs[0], &out = call.outputs[0];
  const bool by_index = call.inputs[1].buffer->dtype == Dtype::int64;
  const Argument* indices = by_index ? &call.inputs[1] : nullptr;
  const std::int64_t n = last_extent(out), rows = rows_of(out);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t from = table_row(call, table, out, indices, row);
    const Real* values = reals<Real>(table) + std::max<std::int64_t>(from, 0) * n;
    Real* to = reals<Real>(out) + row * n;
    for (std::int64_t i = 0; i < n; ++i) to[i] = from < 0 ? 0 : values[i];
    if (by_index) continue;
    const Real* x = reals<Real>(call.inputs[1]) + row * n;
    for (std::int64_t i = 0; i < n; ++i) to[i] += x[i];
  }
}

template <class Real>
void run_scatter(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &table = call.outputs[0];
  const Argument* indices = call.inputs.size() > 1 ? &call.inputs[1] : nullptr;
  if (!adds_to(call, table)) std::fill_n(reals<Real>(table), elements(table.part), Real{0});
  const std::int64_t n = last_extent(gradient), rows = rows_of(gradient);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = table_row(call, table, gradient, indices, row);
    if (at < 0) continue;
    const Real* from = reals<Real>(gradient) + row * n;
    Real* to = reals<Real>(table) + at * n;
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
  }
}

template <class Real>
void run_cross_entropy(const KernelCall& call) {
  const Argument& logits = call.inputs[0];
  const std::int64_t n = last_extent(logits), rows = rows_of(logits), columns = true_columns(call, logits);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real* x = reals<Real>(logits) + row * n;
    const Real maximum = reals<Real>(call.inputs[1])[row];
    const double sum = math<Real>().sum_exponentials(x, maximum, columns);
    const std::int64_t label = indices_of(call.inputs[2])[row] - logits.part.back().first;
    Real* out = reals<Real>(call.outputs[0]) + 2 * row;
    out[0] = static_cast<Real>(sum);
    out[1] = label >= 0 && label < n ? x[label] - maximum : 0;
  }
}

template <class Real>
void run_cross_entropy_backward(const KernelCall& call) {
  const Argument &sums = call.inputs[0], &logits = call.inputs[2];
  const std::int64_t n = last_extent(logits), rows = rows_of(logits), columns = true_columns(call, logits);
  const auto scale = static_cast<Real>(weight_of_loss(call.what) /
                                       rows_of_step(call.plan, logits.part, /*has_classes=*/true));
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real* x = reals<Real>(logits) + row * n;
    const Real maximum = reals<Real>(call.inputs[1])[row], sum = reals<Real>(sums)[2 * row];
    const std::int64_t label = indices_of(call.inputs[3])[row] - logits.part.back().first;
    Real* out = reals<Real>(call.outputs[0]) + row * n;
    math<Real>().exponentials(x, maximum, scale / sum, out, columns);
    std::fill(out + columns, out + n, Real{0});
    if (label >= 0 && label < columns) out[label] -= scale;
  }
}

template void run_input<float>(const KernelCall&);
template void run_input<double>(const KernelCall&);
template void run_gather<float>(const KernelCall&);
template void run_gather<double>(const KernelCall&);
template void run_scatter<float>(const KernelCall&);
template void run_scatter<double>(const KernelCall&);
template void run_cross_entropy<float>(const KernelCall&);
template void run_cross_entropy<double>(const KernelCall&);
template void run_cross_entropy_backward<float>(const KernelCall&);
template void run_cross_entropy_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
