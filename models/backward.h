#pragma once

#include <cstdint>
#include <vector>

#include "models/graph.h"

namespace simrun {

// What a backward step reads, relative to its forward operator.
enum class OperandRole : std::uint8_t { input_value, output_value, output_gradient, input_gradient };
struct Operand {
  OperandRole role = OperandRole::output_gradient;
  std::uint8_t index = 0;
};

// One kernel of an operator's backward pass.
struct BackwardStep {
  Opcode opcode = Opcode::map;
  Function function = Function::none;
  bool weight = false;  // W: writes only gradients of parameters, so it may run later than the step that the
                        // previous stage waits for
  bool alias = false;   // the gradient is the output's gradient itself: no kernel
  std::vector<Operand> reads;
  std::vector<std::uint8_t> gradients_of;  // indices of inputs whose gradients it writes, in output order
  std::vector<double> constants = {};      // where it has others than its operator
};

// The backward pass of one operator, derived from its opcode; empty where nothing is differentiable. Steps of
// the input gradient come first.
//   gemm D = A B (+ bias)   I: dA = dD B       W: dB = A dD, dbias = sum(dD)
//   attention               I: dq, dk, dv (and of sinks), from q, k, v and what the forward kernel kept
//   norm                    I: dx and the weight's gradients in one kernel
//   map                     I: elementwise     W: bias gradients
//   gather                  W: scatter of the row gradients
//   copy                    I: copied back
//   dispatch, combine       I: scatter of the row gradients; combine's probabilities in the same kernel; of
//                           a combine that only sums, its tokens' gradients are dispatched
//   route                   I: logits, from their values and the chosen indices
//   conv                    I: dx from dy, w   W: dw from x, dy; bias gradients
//   pool                    I: dx, a maximum's from the index that it kept
//   lstm                    I: gradient of the gates' inputs, step by step backwards
//                           W: that of the recurrent matrix, one product over all steps
//   scan                    I: gradients of all inputs, position by position backwards
// Values read are what the forward pass must keep (or compute again). Gradients of frozen inputs are left
// out, and steps that nothing else needs (models/trained_parameters.h).
std::vector<BackwardStep> backward_steps(const Graph& graph, const Operator& op);

}  // namespace simrun
