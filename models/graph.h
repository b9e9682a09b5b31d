#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "configs/dtype.h"
#include "models/causal_mask.h"
#include "models/opcode.h"

// A model as a graph of operators over tensors whose dimensions have names. FLOPs, bytes, parameters, the
// backward pass and what may be split all follow from it; a model family is a file that writes its forward
// operators down.
namespace simrun {

using DimensionId = std::uint16_t;
using TensorId = std::uint32_t;

inline bool has(const std::vector<DimensionId>& dims, DimensionId dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// `size` is what the model has, `padded_size` what a rank allocates and multiplies (vocabulary rounded up for
// tensor parallelism).
struct Dimension {
  std::string name;
  std::int64_t size = 1;
  std::int64_t padded_size = 1;
};

enum class TensorKind : std::uint8_t { parameter, activation, gradient, state, index };

struct Tensor {
  std::string name;
  std::vector<DimensionId> dims;  // in storage order, last fastest
  Dtype dtype = Dtype::bf16;
  TensorKind kind = TensorKind::activation;
  // No gradient of it is wanted: a parameter that is not trained, or a value before which nothing is trained.
  bool frozen = false;
  std::int32_t scale_block = 0;  // elements of a parameter that share a scale (models/quantized_base.h)
  // Of the same rows as this tensor, beside which ranks exchange it, as they do the gradients of both.
  std::optional<TensorId> travels_with = {};
};

// A dimension of an operator that holds the tokens of others, in another order: where the operator's rank has
// a part of those, it has the same tokens' part of this one.
struct Regroup {
  std::vector<DimensionId> from;
  DimensionId to = 0;
};

// The operator's opcode decides what it means:
//   gemm           out[D] = sum over (A and B) - D of in0[A] in1[B]: Einstein summation by name; in2, if
//   there,
//                  is a bias over a subset of D
//   attention      in0 = packed q, k, v [batch, sequence, kv_heads, group + 2, head_dim], in1 = sinks or a
//                  table of position biases, if there;
//                  out0 = context [batch, sequence, kv_heads, group, head_dim];
//                  or in0 = q [batch, sequence, kv_heads, group, head_dim], in1, in2 = k, v [batch, sequence
//                  of another stack, kv_heads, head_dim]; out0 as before;
//                  or in0 = q [.., sequence, kv_heads, group, head_dim], in1 = k, v [.., key_sequence,
//                  kv_heads, 2, head_dim], in2 = sinks, where they lie apart (context parallelism);
//                  or in0, in1 = q, k [batch, sequence, kv_heads, qk_dim], in2 = v [.., v_dim];
//                  out0 = context [batch, sequence, kv_heads, v_dim]; out1.. = what its backward
//                  needs (flash: log-sum-exp; unfused: probabilities, dropout mask, dropped probabilities)
//   norm           in0 = x, in1 = weight, in2 = bias of a layer norm; out0 = y, out1 = row statistics.
//                  qk_norm: x = packed q, k, v, of which v is copied; weight [2, head_dim], or, of all
//                  queries together and all keys, [kv_heads, qk_heads, head_dim], or none.
//                  qk_layer_norm: likewise, of each head, weight [kv_heads, qk_heads, head_dim]
//   map            elementwise, by `function`; inputs that lack dimensions are broadcast;
//                  out1 = dropout mask if dropout > 0. `add` to packed q, k, v: an input with `group` or
//                  `one` in place of `qkv` is added to the part whose name it begins with
//   gather         in0 = table, in1 = indices: rows by index, zero where the row is another rank's;
//                  or in1 = an activation: rows by position, added to it
//   copy           in0 = rows of packed q, k, v; out0 = those of a rank's heads
//                  dispatch: in0 = rows [batch, sequence, hidden], in1 = expert indices [.., topk];
//                  out0 = [experts, capacity, hidden]; in2 = dispatch_mask of a MAP dispatch_masks, if there
//                  combine: in0 = [experts, capacity, hidden], in1 = probabilities, in2 = expert indices;
//                  out0 = each token's rows, summed with its probabilities; in1 may be a combine_mask
//                  Between rows of a node, a GPU and an expert: dispatch in0 = the former, out0 = the latter;
//                  combine in0 = the latter, in1 = probabilities by row, if there, out0 = sums of the former;
//                  combine in0 = rows of nodes or GPUs, in1 = expert indices: out0 = each token's summed
//   route          in0 = logits [.., expert_scores], in1 = a bias that only chooses; out0 = probabilities,
//                  out1 = indices of the chosen experts [.., topk]
//   map            `select`: the first position of in0's second dimension, or all behind it where the output
//                  has a dimension for them
//   reduce         over the dimensions that the output lacks, by `function`
//   cross_entropy  in0 = logits, in1 = row maximum, in2 = labels;
//                  out0 = (sum of exponentials, target logit) per row
//   input          out0 = data of the microbatch
//   conv           in0 = x [batch, height, width, channels], in1 = weight [channels', kernel height, kernel
//                  width, channels], in2 = bias [channels'], if there; out0 = [batch, height', width',
//                  channels']
//   pool           in0 = x, out0 = the maximum or mean of windows, out1 = indices of the maxima
//   lstm           in0 = input products of the gates [batch, sequence, gates, cell], in1 = recurrent weight
//                  [gates, cell, hidden]; out0 = hidden states [batch, sequence, hidden], out1 = gates,
//                  out2 = cell states
//   scan           in0 = z, x, B, C, dt of groups of heads [batch, sequence, groups, packed];
//                  in1, in2 = weight [groups, convolved, taps] and bias of a causal convolution of x, B, C;
//                  in3, in4, in5 = bias of dt, log of the decay's rate, skip of x [groups, heads];
//                  out0 = gated channels [batch, sequence, groups, inner], out1 = those before the gate
//                  (backend/operations.h)
//                  gated_delta_rule: in0 = q, k, v, b, a of key heads [batch, sequence, heads, packed];
//                  in1 = weight [heads, convolved, taps] of a causal convolution of q, k, v; in2, in3 = bias
//                  of a, log of the decay's rate [heads, group]; out0 = values [batch, sequence, heads,
//                  group, value], out1.. = what its backward needs (backend/operations.h)
struct Operator {
  std::string name;  // "qkv"
  // Recompute module it belongs to (core_attn, mlp, layernorm, moe, mla_up_proj, mamba, delta_net, or ""),
  // and the smaller one within that (moe_act within moe).
  std::string module;
  std::string inner_module;
  std::string stack;  // of a model of several parts, the one it belongs to: vision_tower, language_model, ...
  Opcode opcode = Opcode::map;
  Function function = Function::none;
  // -1: before the first layer (embedding) or, with `after_layers`, behind the last (head).
  std::int32_t layer = -1;
  bool after_layers = false;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::size_t forward_inputs = 0;  // the first n inputs are read forward; further ones only by its backward
  float dropout = 0;
  CausalMask causal;    // attention
  double soft_cap = 0;  // of attention's scores, or of a `soft_cap`
  // Attention: a bias of slope x distance on every score (Press et al. 2021, arXiv 2108.12409).
  bool alibi = false;
  // An `add` of partial sums that is one itself: only its output is summed over ranks.
  bool keeps_partial_sums = false;
  // Linear in its first input, and takes that as a partial sum where it is one: its output is one then. The
  // same backward, of the output's gradient.
  bool sums_later = false;
  // Of every token, a rank does what concerns its experts (all-gather dispatch): the tokens of the ranks
  // among which experts are divided are gathered before it, or its partial sums scattered behind it.
  bool gathers_tokens = false;
  // It stands before its layer, on the same stage: a checkpoint of the layer leaves it out.
  bool before_layer = false;
  // Nobody reads its output: it is run and has no backward.
  bool discarded = false;
  std::vector<DimensionId> whole_dims;  // dimensions that this operator cannot have split
  std::optional<Regroup> regroup;       // dispatch: its output; combine: its first input
  // Numbers of the function that change no cost (backend/operations.h): of a norm its epsilon, of rope its
  // base and turned share, of a scale the factor, of a soft cap the cap, of attention the factor of its
  // scores, their cap and what their biases are made of, of a clip its bound, of scaled queries factor and
  // step, of an input of indices how far ahead they are read and how many kinds there are, of learned
  // positions the first row's, of a loss its weight, of a route how scores become weights, of a dispatch to
  // experts with a capacity the parts of a sequence.
  std::vector<double> constants;
};

struct Graph {
  std::vector<Dimension> dimensions;
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;  // in an order in which they can run

  DimensionId dimension(const std::string& name) const;  // REQUIRES: it exists
};

// Elements of a tensor, unsharded: unpadded or padded extents.
std::int64_t elements(const Graph& graph, const Tensor& tensor);
std::int64_t padded_elements(const Graph& graph, const Tensor& tensor);

// All dimensions that an operator's inputs and outputs have, each once, in order of first appearance: its
// iteration space.
std::vector<DimensionId> iteration_space(const Graph& graph, const Operator& op);

// Unpadded parameters of the operators in [first, last), each tensor counted once (a tied embedding is one
// tensor).
std::int64_t count_parameters(const Graph& graph, std::size_t first, std::size_t last);
std::int64_t count_parameters(const Graph& graph);
// Those of them that are trained.
std::int64_t count_trained_parameters(const Graph& graph);

}  // namespace simrun
