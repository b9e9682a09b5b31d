#pragma once

#include "models/graph.h"

namespace simrun {

// Floating-point operations of matrix products (a multiply-add is 2), unsharded, for one pass over the
// graph's batch. Attention counts the full score matrix: 2 products of batch x heads x s x s x head_dim
// forward (latent attention: one of qk_dim, one of v_dim), 4 backward, whatever the kernel skips or repeats;
// under a sliding window, s x min(s, window), since the model has no other scores. Experts count the rows
// that are routed to them, batch x sequence x topk, whatever their capacity. What is frozen has no backward
// products: neither a weight's gradient nor that of a value before which nothing is trained. A convolution
// counts every position of its kernel, padding included. A Mamba-2 layer's scan counts scan_operations per
// token, channel and element of the state forward, twice that backward; a Gated DeltaNet layer's
// delta_rule_operations.
struct OperatorFlops {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double total() const { return forward + backward_input + backward_weight; }
};

// Megatron-LM's count (training/training.py, mamba_layer_flops); the convolution is not in it.
constexpr double scan_operations = 7;
// Likewise (the same file, gated delta rule): 4 products of a state and a row, for K K^T, V K^T, S (a (I - b
// K K^T)) and S Q.
constexpr double delta_rule_operations = 8;
constexpr double scan_operations_of(Function function) {
  return function == Function::gated_delta_rule ? delta_rule_operations : scan_operations;
}

enum class Extents : bool { unpadded, padded };

OperatorFlops operator_flops(const Graph& graph, const Operator& op, Extents extents);

// Model FLOPs of one training pass over the graph's batch: forward and backward, no recompute, unpadded,
// nothing that nobody reads. For
// GPT shapes this is Korthikanti et al. 2022 (arXiv 2205.05198), appendix A: 72 B L s h^2 (1 + s/6h +
// V/12hL).
double model_flops(const Graph& graph);

}  // namespace simrun
