#include <algorithm>
#include <stdexcept>

#include "backend/cuda/lower.h"

namespace simrun::cuda {
namespace {

const std::int64_t* indices_of(const Argument& argument) {
  return static_cast<const std::int64_t*>(argument.data);
}

TableRows table_rows(const KernelCall& call, const Argument& table, const Argument& rows,
                     const Argument* indices) {
  const DimPart& part = table.part[0];
  if (indices != nullptr) return {indices_of(*indices), 0, 1, part.first, part.extent};
  const DimPart& sequence = cpu::part_named(call, rows, "sequence");
  return {nullptr, sequence.first + static_cast<std::int64_t>(call.what.constants.at(0)), sequence.extent,
          part.first, part.extent};
}

}  // namespace

template <class Math>
void lower_input(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  if (call.training.text != nullptr) throw std::runtime_error("the CUDA device reads no text yet: --data");
  const Argument& out = call.outputs[0];
  const auto vocab = std::find(call.plan.dimension_names.begin(), call.plan.dimension_names.end(), "vocab");
  const DimPart &batch = cpu::part_named(call, out, "batch"),
                &sequence = cpu::part_named(call, out, "sequence");
  InputElement kernel{};
  kernel.count = elements(out.part);
  kernel.to = static_cast<std::int64_t*>(out.data);
  kernel.first_sample = call.microbatch * batch.whole + batch.first;
  kernel.first_position = sequence.first;
  kernel.sequence = sequence.extent;
  kernel.whole_sequence = sequence.whole;
  const std::vector<double>& constants = call.what.constants;
  kernel.ahead = !constants.empty()            ? static_cast<std::int64_t>(constants[0])
                 : call.what.label == "labels" ? 1
                                               : 0;
  kernel.vocabulary = static_cast<std::uint32_t>(
      call.plan.dimension_sizes[static_cast<std::size_t>(vocab - call.plan.dimension_names.begin())]);
  kernel.random = list.random("text", 0);
  list.add(kernel);
}

template <class Math>
void lower_gather(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& out = call.outputs[0];
  const bool by_index = call.inputs[1].buffer->dtype == Dtype::int64;
  GatherElement<Math> kernel{};
  kernel.count = elements(out.part);
  kernel.rows = table_rows(call, call.inputs[0], out, by_index ? &call.inputs[1] : nullptr);
  kernel.n = cpu::last_extent(out);
  kernel.table = list.input(0);
  if (!by_index) kernel.added = list.input(1);
  kernel.to = list.output(0);
  list.add(kernel);
}

template <class Math>
void lower_scatter(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument &gradient = call.inputs[0], &table = call.outputs[0];
  const TableRows rows =
      table_rows(call, table, gradient, call.inputs.size() > 1 ? &call.inputs[1] : nullptr);
  list.clear_unless_added(table);
  const std::int64_t count = cpu::rows_of(gradient);
  auto* const chain = list.template scratch<std::int64_t>(2 * count);
  list.add(ChainElement{count, rows, chain});
  list.add(ScatterElement<Math>{elements(gradient.part), rows, chain, cpu::last_extent(gradient),
                                list.input(0), list.output(0)});
}

template <class Math>
void lower_cross_entropy(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& logits = call.inputs[0];
  list.add(CrossEntropyRow<Math>{cpu::rows_of(logits), 0, list.input(0), list.input(1), list.output(0),
                                 indices_of(call.inputs[2]), cpu::last_extent(logits),
                                 cpu::true_columns(call, logits), logits.part.back().first});
}

template <class Math>
void lower_cross_entropy_backward(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& logits = call.inputs[2];
  list.add(CrossEntropyBackwardElement<Math>{
      elements(logits.part), list.input(0), list.input(1), list.input(2), list.output(0),
      indices_of(call.inputs[3]), cpu::last_extent(logits), cpu::true_columns(call, logits),
      logits.part.back().first,
      static_cast<Math>(weight_of_loss(call.what) /
                        rows_of_step(call.plan, logits.part, /*has_classes=*/true))});
}

template void lower_input(LaunchList<float>&);
template void lower_input(LaunchList<double>&);
template void lower_gather(LaunchList<float>&);
template void lower_gather(LaunchList<double>&);
template void lower_scatter(LaunchList<float>&);
template void lower_scatter(LaunchList<double>&);
template void lower_cross_entropy(LaunchList<float>&);
template void lower_cross_entropy(LaunchList<double>&);
template void lower_cross_entropy_backward(LaunchList<float>&);
template void lower_cross_entropy_backward(LaunchList<double>&);

}  // namespace simrun::cuda
