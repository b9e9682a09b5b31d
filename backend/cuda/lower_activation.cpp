#include "backend/cuda/lower.h"

namespace simrun::cuda {
namespace {

template <class Math>
Biased<Math> biased(const LaunchList<Math>& list, std::size_t x) {
  Biased<Math> result{list.input(x), list.optional_input(x + 1), {}};
  if (result.bias) result.places = broadcast_places(list.call.inputs[x], list.call.inputs[x + 1]);
  return result;
}

template <class Math>
void forward(LaunchList<Math>& list, Activation which, bool is_gated) {
  const Argument& out = list.call.outputs[0];
  list.add(ActivationElement<Math>{elements(out.part),
                                   {which},
                                   biased(list, 0),
                                   list.output(0),
                                   is_gated ? cpu::last_extent(out) : 0,
                                   {}});
}

template <class Math>
void backward(LaunchList<Math>& list, Activation which, bool is_gated) {
  const Argument& gradient = list.call.inputs[0];
  list.add(ActivationBackwardElement<Math>{elements(gradient.part),
                                           {which},
                                           biased(list, 1),
                                           list.input(0),
                                           list.output(0),
                                           is_gated ? cpu::last_extent(gradient) : 0,
                                           {},
                                           {}});
}

// The gates and the values apart.
template <class Math>
void two_inputs(LaunchList<Math>& list, Activation which) {
  list.add(ActivationElement<Math>{elements(list.call.outputs[0].part),
                                   {which},
                                   {list.input(0), {}, {}},
                                   list.output(0),
                                   0,
                                   list.input(1)});
}

template <class Math>
void two_inputs_backward(LaunchList<Math>& list, Activation which) {
  list.add(ActivationBackwardElement<Math>{elements(list.call.inputs[0].part),
                                           {which},
                                           {list.input(1), {}, {}},
                                           list.input(0),
                                           list.output(0),
                                           0,
                                           list.input(2),
                                           list.output(1)});
}

template <class Math>
void soft_cap(LaunchList<Math>& list, bool is_backward) {
  SoftCapElement<Math> kernel{};
  kernel.count = elements(list.call.outputs[0].part);
  kernel.x = list.input(is_backward ? 1 : 0);
  if (is_backward) kernel.gradient = list.input(0);
  kernel.to = list.output(0);
  kernel.cap = static_cast<Math>(list.call.what.constants.at(0));
  list.add(kernel);
}

}  // namespace

template <class Math>
void lower_activation(LaunchList<Math>& list) {
  switch (list.call.what.function) {
    case Function::gelu: return forward(list, Activation::gelu, false);
    case Function::gelu_backward: return backward(list, Activation::gelu, false);
    case Function::relu: return forward(list, Activation::relu, false);
    case Function::relu_backward:
      return list.add(ReluBackwardElement<Math>{elements(list.call.outputs[0].part), list.input(0),
                                                list.input(1), list.output(0)});
    case Function::squared_relu: return forward(list, Activation::squared_relu, false);
    case Function::squared_relu_backward: return backward(list, Activation::squared_relu, false);
    case Function::swiglu: return forward(list, Activation::silu, true);
    case Function::swiglu_backward: return backward(list, Activation::silu, true);
    case Function::geglu: return forward(list, Activation::gelu, true);
    case Function::geglu_backward: return backward(list, Activation::gelu, true);
    case Function::gated_silu: return two_inputs(list, Activation::silu);
    case Function::gated_silu_backward: return two_inputs_backward(list, Activation::silu);
    case Function::gated_gelu: return two_inputs(list, Activation::gelu);
    case Function::gated_gelu_backward: return two_inputs_backward(list, Activation::gelu);
    case Function::soft_cap: return soft_cap(list, false);
    case Function::soft_cap_backward: return soft_cap(list, true);
    default: return;  // refused before anything runs
  }
}

template void lower_activation(LaunchList<float>&);
template void lower_activation(LaunchList<double>&);

}  // namespace simrun::cuda
