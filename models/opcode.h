#pragma once

#include <cstdint>

// What an operator of a graph and an instruction of a Plan can be. One list for both: every opcode can be
// priced and run.
namespace simrun {

enum class Opcode : std::uint8_t {
  init,
  input,
  copy,
  free,
  gemm,
  attention,
  attention_backward,
  norm,
  norm_backward,
  map,
  reduce,
  gather,
  scatter,
  route,
  route_backward,
  cross_entropy,
  cross_entropy_backward,
  optimizer,
  send,
  recv,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  conv,
  pool,
  pool_backward,
  lstm,
  lstm_backward,
  push,  // gradients of workers to parameter servers, where they are summed
  pull,  // weights from them
  scan,  // of a Mamba-2 or Gated DeltaNet layer
  scan_backward,
};
constexpr int opcode_count = static_cast<int>(Opcode::scan_backward) + 1;
constexpr bool has_servers(Opcode opcode) { return opcode == Opcode::push || opcode == Opcode::pull; }
constexpr bool is_communication(Opcode opcode) {
  return (opcode >= Opcode::send && opcode <= Opcode::broadcast) || has_servers(opcode);
}

// What a MAP, REDUCE, NORM, ATTENTION, CROSS_ENTROPY or OPTIMIZER computes.
enum class Function : std::uint8_t {
  none,
  add,  // out = dropout(in0 [+ biases]) [+ residual]; a bias lacks dimensions of in0, a residual has them all
  add_backward,   // gradient of in0 of `add` with dropout: mask x gradient
  sum_gradients,  // out = in0 + in1 (+ ...): contributions of several consumers
  gelu,
  gelu_backward,
  swiglu,
  swiglu_backward,
  rope,
  rope_backward,
  cast,
  scale,
  sum,
  max,
  sum_squares,
  layer_norm,
  rms_norm,
  flash,  // MAP: joins two partial outputs of flash attention by their log-sum-exps
  unfused,
  log_loss,  // loss = log(sum of exponentials) - target logit
  adam,
  relu,
  relu_backward,
  squared_relu,
  squared_relu_backward,
  geglu,
  geglu_backward,
  soft_cap,  // out = cap tanh(in0 / cap)
  soft_cap_backward,
  qk_norm,   // RMS norm over head_dim of the queries and keys in packed q, k, v
  dispatch,  // rows of tokens to their experts' rows; as a SCATTER, its gradient: each token's rows summed
  combine,   // experts' rows to their tokens, summed with probabilities; as a SCATTER, its gradients
  sigmoid_gate,  // out = in0 x sigmoid(in1), one in1 per row
  sigmoid_gate_backward,
  split,     // in0's last dimension, in order, to all outputs
  concat,    // the reverse
  mla_rope,  // in0 = keys without position and values of every head, in1 = the heads' shared key part: keys
             // with the rotated shared part, and values
  mla_rope_backward,
  sgd,
  adafactor,
  muon,
  tanh,
  tanh_backward,
  select,  // the first position of a sequence, or all behind it
  select_backward,
  concatenate,  // of the inputs along the one dimension in which they differ from the output; of several
                // images' rows those of one sample lie behind each other
  concatenate_backward,
  batch_norm,  // over all but the channels, statistics of the samples that the rank has
  convolution_input_gradient,
  convolution_weight_gradient,
  max_pool,
  average_pool,
  dispatch_masks,  // of probabilities and indices: weights by place with an expert, and where they are not 0
  dispatch_masks_backward,
  gated_silu,  // out = silu(in0) x in1
  gated_silu_backward,
  gated_gelu,  // out = gelu(in0) x in1
  gated_gelu_backward,
  weigh_rows,  // out = in0 x in1, one in1 per row
  weigh_rows_backward,
  gated_sigmoid,  // out = sigmoid(in0) x in1
  gated_sigmoid_backward,
  gated_delta_rule,  // as a SCAN: of a Gated DeltaNet layer
  scale_rows,        // as weigh_rows; its backward reads in0
  scale_rows_backward,
  qk_layer_norm,  // layer norm over head_dim of each query and key in packed q, k, v, by weights of its own
  clip,           // out = in0, within a bound on both sides of 0
  clip_backward,
  scale_queries,  // those in packed q, k, v, by their position; linear, so its own backward
};
constexpr int function_count = static_cast<int>(Function::scale_queries) + 1;

}  // namespace simrun
