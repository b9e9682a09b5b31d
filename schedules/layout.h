#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph.h"
#include "schedules/device_mesh.h"
#include "schedules/plan.h"

// Layouts: which named dimension is split over which axes of a mesh. A parallel strategy is a list of rules;
// collectives are never written by hand but follow from how a producer's layout and a consumer's differ.
namespace simrun {

// One dimension tiled over an ordered list of axes, the first outermost. `contiguous` cuts equal blocks in
// order; `zigzag` gives rank r the blocks r and 2n-1-r of 2n (balances causal attention); `uneven` takes
// sizes from the Plan's extent table `table`.
enum class Tiling : std::uint8_t { contiguous, zigzag, uneven };
struct DimensionSplit {
  DimensionId dim = 0;
  std::vector<AxisId> axes;
  Tiling tiling = Tiling::contiguous;
  std::int32_t table = -1;
  bool operator==(const DimensionSplit&) const = default;
};

// How one tensor lies on a mesh: dimensions not named are whole, axes not named hold replicas. Over a partial
// axis every rank holds a summand (or a candidate for the maximum) of the value. Splits are sorted by
// dimension, axes of partials ascending.
struct Layout {
  std::vector<DimensionSplit> splits;
  std::vector<AxisId> partial_sum;
  std::vector<AxisId> partial_max;
  bool operator==(const Layout&) const = default;
  const DimensionSplit* split_of(DimensionId dim) const;
};

// `dim: axes`, for the operators of a scope (configs/scope_pattern.h).
struct LayoutRule {
  std::string scope;
  std::string dim;
  std::vector<std::string> axes;
  bool decides = false;  // later rules do not add to the dimension; without axes it stays whole
};

// The rules of a job's strategy, in order of precedence:
//   kv_heads: tp, cp_inner in attention             context parallel by all-to-all (DeepSpeed-Ulysses)
//   experts: ep_outer, node_rows: edp, etp, ep_inner
//                                                   between the exchanges over nodes and in a node (deepep);
//                                                   node_rows, gpu_rows: edp elsewhere
//   experts: ep, expert_ffn: etp, capacity: edp     expert parallel (Lepikhin et al. 2021); Megatron-Core's
//                                                   parallel folding: over the ranks that dense layers call
//                                                   tp, cp and dp
//   batch: dp                                       data parallel
//   sequence: cp                                    context parallel
//   kv_heads, qkv_rows, ffn, shared_ffn, vocab: tp  Megatron tensor parallel (Shoeybi et al. 2019)
//   sequence: tp                                    sequence parallel, wherever tp is still free (Korthikanti
//                                                   et al. 2022)
std::vector<LayoutRule> strategy_rules(const Job& job);

// How an operator's iteration space is split. Rules apply in order; an axis serves an operator once, so
// `sequence: tp` takes effect exactly where no head, ffn or vocabulary dimension has taken tp. A dimension
// that several rules name is split over all their axes, the first outermost. Axes of size 1 and dimensions
// the operator needs whole are passed over. An operator that regroups tokens (Operator::regroup) has the new
// dimension split over the axes of the old ones, those of expert parallelism innermost: their exchange is
// then one all-to-all. Throws std::invalid_argument with operator, dimension and both numbers if an extent
// does not divide.
Layout operator_layout(const Graph& graph, const Operator& op, const std::vector<LayoutRule>& rules,
                       const DeviceMesh& mesh);

// Layouts of an operator's operands, given its own.
Layout input_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t input);
// Partial where the operator contracts a split dimension.
Layout output_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t output);
// What a backward step's contribution to an input's gradient looks like: partial over the operator's axes
// that do not split the input. Of a product's bias only over those that split the product: it is added to it
// once, not to each summand of it.
Layout gradient_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t input);
Layout without_partials(Layout layout);

// One step of a change of layout.
struct Conversion {
  // all_reduce, reduce_scatter, all_gather, all_to_all; copy: a local slice
  Opcode opcode = Opcode::all_reduce;
  std::vector<AxisId> axes;
  Reduction reduction = Reduction::sum;
  Layout result;
};

// The collectives that turn `from` into `to`: partial -> split by reduce-scatter,
// partial -> replicated by all-reduce, split -> replicated by all-gather, split -> split elsewhere by
// all-to-all, replicated -> split by a local slice. Of a dimension over several axes the innermost are given
// up first and taken last, so sequence over cp x tp becomes sequence over cp by a gather over tp alone.
// REQUIRES: `to` has no partial axes.
// `as_tokens`: neighbouring gathers, and neighbouring scatters, of several dimensions are one, over the
// tokens of batch and sequence, whose order does not matter then (Megatron-Core's all-gather dispatcher).
std::vector<Conversion> conversions(const Layout& from, const Layout& to, bool as_tokens = false);

// Whether what experts made of tokens is where a `combine` in the layout `back` has them, if a dispatch sent
// them in the layout `sent`: it splits them over the same axes, or over the outer ones, where rows are
// gathered. Places of masks (Lepikhin et al. 2020) lie in the order of tokens, whoever sent them: always
// (CPU ranks, which send rows, refuse it).
bool rows_come_back(const Operator& dispatch, const Layout& sent, const Layout& back);

// "sequence split over tp, sum partial over dp" or "replicated".
std::string describe(const Layout& layout, const Graph& graph, const DeviceMesh& mesh);

// Extent of a dimension on one rank.
std::int64_t local_extent(const Graph& graph, const Layout& layout, DimensionId dim, const Mesh& mesh);

}  // namespace simrun
