#include "backend/cuda/lower.h"

namespace simrun::cuda {
namespace {

template <class Math>
void lower_add(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& out = call.outputs[0];
  AddElement<Math> kernel{};
  kernel.count = elements(out.part);
  kernel.first = list.input(0);
  kernel.to = list.output(0);
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.inputs[i].part.size() < call.inputs[0].part.size()) {
      kernel.bias_places[kernel.biases] = broadcast_places(call.inputs[0], call.inputs[i]);
      kernel.bias[kernel.biases++] = list.input(i);
    } else {
      kernel.residual[kernel.residuals++] = list.input(i);
    }
  }
  kernel.dropout = static_cast<double>(call.what.dropout);
  if (kernel.dropout > 0) {
    kernel.mask = static_cast<std::uint8_t*>(call.outputs[1].data);
    kernel.random = list.random(call.what.label, call.what.layer);
    kernel.row = cpu::last_extent(out);
    kernel.whole_rows = whole_row_places(call, out);
  }
  list.add(kernel);
}

// As many at a time as a kernel takes.
template <class Math>
void lower_sum_gradients(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  bool adds = cpu::adds_to(call, call.outputs[0]);
  for (std::size_t first = 0; first < call.inputs.size(); first += most_operands, adds = true) {
    SumElement<Math> kernel{elements(call.outputs[0].part), list.output(0), adds, 0, {}};
    for (std::size_t i = first; i < call.inputs.size() && kernel.inputs < most_operands; ++i)
      kernel.input[kernel.inputs++] = list.input(i);
    list.add(kernel);
  }
}

template <class Math>
void lower_rope(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& in = call.inputs[0];
  const DimPart& sequence = cpu::part_named(call, in, "sequence");
  RopeElement<Math> kernel{};
  kernel.count = elements(in.part);
  kernel.from = list.input(0);
  kernel.to = list.output(0);
  kernel.head_dim = cpu::last_extent(in);
  kernel.qkv = cpu::part_named(call, in, "qkv").extent;
  kernel.heads = cpu::part_named(call, in, "kv_heads").extent * kernel.qkv;
  kernel.first_position = sequence.first;
  kernel.sequence = sequence.extent;
  kernel.base = call.what.constants.at(0);
  kernel.half =
      static_cast<std::int64_t>(call.what.constants.at(1) * static_cast<double>(kernel.head_dim)) / 2;
  kernel.direction = call.what.function == Function::rope_backward ? -1 : 1;
  list.add(kernel);
}

template <class Math>
void lower_scale(LaunchList<Math>& list, double factor) {
  list.add(ScaleElement<Math>{elements(list.call.outputs[0].part), list.input(0), list.output(0),
                              static_cast<Math>(factor)});
}

}  // namespace

template <class Math>
void lower_map(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const std::int64_t count = elements(call.outputs[0].part);
  switch (call.what.function) {
    case Function::add: return lower_add(list);
    case Function::add_backward:
      return list.add(AddBackwardElement<Math>{
          count, list.input(0), list.output(0), static_cast<const std::uint8_t*>(call.inputs[1].data),
          1 / static_cast<Math>(1 - static_cast<double>(call.what.dropout))});
    case Function::sum_gradients: return lower_sum_gradients(list);
    case Function::log_loss: return list.add(LogLossElement<Math>{count, list.input(0), list.output(0)});
    case Function::cast: return lower_scale(list, 1);
    case Function::scale: return lower_scale(list, call.what.constants.at(0));
    case Function::rope:
    case Function::rope_backward: return lower_rope(list);
    default: return lower_activation(list);
  }
}

template void lower_map(LaunchList<float>&);
template void lower_map(LaunchList<double>&);

}  // namespace simrun::cuda
