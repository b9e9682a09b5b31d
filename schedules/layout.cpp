#include "schedules/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "models/model_scope.h"

namespace simrun {
namespace {

bool contains(const std::vector<AxisId>& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

bool in_scope(const LayoutRule& rule, const Graph& graph, const Operator& op) {
  return rule.scope.empty() || holds(parse_scope(rule.scope), graph, op);
}

void sort_axes(std::vector<AxisId>& axes) { std::sort(axes.begin(), axes.end()); }

void add_split(Layout& layout, DimensionSplit split) {
  layout.splits.push_back(std::move(split));
  std::sort(layout.splits.begin(), layout.splits.end(),
            [](const DimensionSplit& a, const DimensionSplit& b) { return a.dim < b.dim; });
}

// The part of an operator's layout that its operand with these dimensions sees; the other split axes go to
// `rest`.
Layout project(const Layout& layout, const std::vector<DimensionId>& dims, std::vector<AxisId>& rest) {
  Layout result;
  for (const DimensionSplit& split : layout.splits) {
    if (has(dims, split.dim))
      result.splits.push_back(split);
    else
      rest.insert(rest.end(), split.axes.begin(), split.axes.end());
  }
  // Axes that split an old and a new dimension of a regrouping.
  for (const DimensionSplit& split : result.splits)
    std::erase_if(rest, [&](AxisId axis) { return contains(split.axes, axis); });
  sort_axes(rest);
  rest.erase(std::unique(rest.begin(), rest.end()), rest.end());
  return result;
}

// Axes of a rule that the operator has not used yet.
std::vector<AxisId> free_axes(const LayoutRule& rule, const DeviceMesh& mesh,
                              const std::vector<AxisId>& used) {
  std::vector<AxisId> axes;
  for (const std::string& name : rule.axes)
    for (const AxisId axis : mesh.axes(name))
      if (!contains(used, axis)) axes.push_back(axis);
  return axes;
}

void require_divisible(const Graph& graph, const Operator& op, DimensionId dim, std::int64_t parts) {
  const std::int64_t extent = graph.dimensions[dim].padded_size;
  if (extent % parts != 0)
    throw std::invalid_argument(fmt::format("{}: {} {} does not divide over {} ranks", op.name,
                                            graph.dimensions[dim].name, extent, parts));
}

}  // namespace

const DimensionSplit* Layout::split_of(DimensionId dim) const {
  for (const DimensionSplit& split : splits)
    if (split.dim == dim) return &split;
  return nullptr;
}

// Rows between the exchange over nodes and that inside a node.
static void add_dispatch_rules(std::vector<LayoutRule>& rules) {
  std::vector<LayoutRule> in_node;
  for (const char* scope : {"dispatch_in_node", "dispatch_in_node_probabilities", "combine_in_node"}) {
    in_node.push_back({scope, "experts", {"ep_outer"}, /*decides=*/true});
    in_node.push_back({scope, "node_rows", {"edp", "etp", "ep_inner"}, /*decides=*/true});
  }
  rules.insert(rules.begin(), in_node.begin(), in_node.end());
  for (const char* rows : {"node_rows", "gpu_rows"}) rules.push_back({"", rows, {"edp"}});
}

std::vector<LayoutRule> strategy_rules(const Job& job) {
  std::vector<LayoutRule> rules;
  if (job.parallelism.context_a2a_size > 1)
    for (const char* scope : {"core_attn", "split_qkv"}) {
      rules.push_back({scope, "kv_heads", {"tp"}});
      rules.push_back({scope, "kv_heads", {"cp_inner"}});
    }
  if (job.parallelism.context_parallel_size > 1) {  // whatever attention beside it exchanges
    rules.push_back({"mamba_scan", "mamba_groups", {"tp"}});
    rules.push_back({"mamba_scan", "mamba_groups", {"cp"}});
    for (const char* scope : {"delta_scan", "delta_norm", "delta_gated"}) {
      rules.push_back({scope, "delta_heads", {"tp"}});
      rules.push_back({scope, "delta_heads", {"cp"}});
    }
  }
  const std::vector<LayoutRule> everywhere{
      {"", "experts", {"ep"}},  {"", "expert_ffn", {"etp"}},  {"", "capacity", {"edp"}},
      {"", "batch", {"dp"}},    {"", "sequence", {"cp"}},     {"", "kv_heads", {"tp"}},
      {"", "qkv_rows", {"tp"}}, {"", "ffn", {"tp"}},          {"", "shared_ffn", {"tp"}},
      {"", "vocab", {"tp"}},    {"", "mamba_groups", {"tp"}}, {"", "delta_heads", {"tp"}}};
  rules.insert(rules.end(), everywhere.begin(), everywhere.end());
  if (job.parallelism.sequence_parallel) rules.push_back({"", "sequence", {"tp"}});
  if (job.moe.token_dispatcher == TokenDispatcher::deepep) add_dispatch_rules(rules);
  return rules;
}

namespace {

void split_further(Layout& layout, DimensionId dim, const std::vector<AxisId>& axes) {
  for (DimensionSplit& split : layout.splits)
    if (split.dim == dim) {
      split.axes.insert(split.axes.end(), axes.begin(), axes.end());
      return;
    }
  add_split(layout, {dim, axes});
}

// Tokens keep their place: the new dimension is split as the old ones are, over expert-parallel axes last, of
// those the nodes (which are exchanged first) behind the GPUs of a node.
void regroup(Layout& layout, const Regroup& tokens, const DeviceMesh& mesh) {
  if (tokens.from.size() == 1) {  // nothing to put in order
    if (const DimensionSplit* split = layout.split_of(tokens.from[0]))
      add_split(layout, {tokens.to, split->axes});
    return;
  }
  std::vector<AxisId> experts = mesh.axes("ep_inner");
  for (const AxisId axis : mesh.axes("ep_outer")) experts.push_back(axis);
  std::vector<AxisId> outer, inner;
  for (const DimensionId dim : tokens.from)
    if (const DimensionSplit* split = layout.split_of(dim))
      for (const AxisId axis : split->axes) (contains(experts, axis) ? inner : outer).push_back(axis);
  std::vector<AxisId> axes = outer;
  for (const AxisId axis : experts)
    if (contains(inner, axis)) axes.push_back(axis);
  if (!axes.empty()) add_split(layout, {tokens.to, axes});
}

// Sums over the dimensions that its output lacks; in2 is a bias.
bool is_product(const Operator& op) { return op.opcode == Opcode::gemm || op.opcode == Opcode::conv; }

}  // namespace

Layout operator_layout(const Graph& graph, const Operator& op, const std::vector<LayoutRule>& rules,
                       const DeviceMesh& mesh) {
  const std::vector<DimensionId> space = iteration_space(graph, op);
  Layout layout;
  std::vector<AxisId> used;
  if (op.gathers_tokens) used = mesh.axes("etp");  // ranks that split an expert have equal tokens
  std::vector<DimensionId> decided = op.whole_dims;
  for (const LayoutRule& rule : rules) {
    if (!in_scope(rule, graph, op)) continue;
    for (const DimensionId dim : space) {
      if (graph.dimensions[dim].name != rule.dim || has(decided, dim)) continue;
      if (rule.decides) decided.push_back(dim);
      if (op.regroup && op.regroup->to == dim) continue;
      const std::vector<AxisId> axes = free_axes(rule, mesh, used);
      if (axes.empty()) continue;
      split_further(layout, dim, axes);
      used.insert(used.end(), axes.begin(), axes.end());
    }
  }
  if (op.regroup) regroup(layout, *op.regroup, mesh);
  for (const DimensionSplit& split : layout.splits)
    require_divisible(graph, op, split.dim, mesh.size(split.axes));
  return layout;
}

Layout input_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t input) {
  std::vector<AxisId> rest;
  return project(layout, graph.tensors[op.inputs[input]].dims, rest);
}

Layout output_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t output) {
  std::vector<AxisId> rest;
  Layout result = project(layout, graph.tensors[op.outputs[output]].dims, rest);
  const bool contracts = is_product(op) || op.opcode == Opcode::gather || op.opcode == Opcode::reduce ||
                         op.opcode == Opcode::cross_entropy;
  if (contracts) (op.function == Function::max ? result.partial_max : result.partial_sum) = std::move(rest);
  return result;
}

Layout gradient_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t input) {
  std::vector<AxisId> rest;
  Layout result = project(layout, graph.tensors[op.inputs[input]].dims, rest);
  // A product's bias is of its rows and columns: ranks that divide the sum have equal gradients of it.
  if (is_product(op) && input > 1)
    std::erase_if(rest, [&](AxisId axis) {
      const std::vector<DimensionId>& out = graph.tensors[op.outputs[0]].dims;
      return std::none_of(layout.splits.begin(), layout.splits.end(), [&](const DimensionSplit& split) {
        return contains(split.axes, axis) && has(out, split.dim);
      });
    });
  result.partial_sum = std::move(rest);
  return result;
}

Layout without_partials(Layout layout) {
  layout.partial_sum.clear();
  layout.partial_max.clear();
  return layout;
}

bool rows_come_back(const Operator& dispatch, const Layout& sent, const Layout& back) {
  const bool has_mask = dispatch.inputs.size() > 2;
  return has_mask || std::ranges::all_of(dispatch.regroup->from, [&](DimensionId dim) {
           const DimensionSplit *before = sent.split_of(dim), *behind = back.split_of(dim);
           return behind == nullptr ||
                  (before != nullptr && before->axes.size() >= behind->axes.size() &&
                   std::equal(behind->axes.begin(), behind->axes.end(), before->axes.begin()));
         });
}

std::string describe(const Layout& layout, const Graph& graph, const DeviceMesh& mesh) {
  std::vector<std::string> parts;
  for (const DimensionSplit& split : layout.splits)
    parts.push_back(
        fmt::format("{} split over {}", graph.dimensions[split.dim].name, mesh.words(split.axes)));
  if (!layout.partial_sum.empty()) parts.push_back("partial sum over " + mesh.words(layout.partial_sum));
  if (!layout.partial_max.empty()) parts.push_back("partial max over " + mesh.words(layout.partial_max));
  return parts.empty() ? "replicated" : fmt::format("{}", fmt::join(parts, ", "));
}

std::int64_t local_extent(const Graph& graph, const Layout& layout, DimensionId dim, const Mesh& mesh) {
  std::int64_t parts = 1;
  if (const DimensionSplit* split = layout.split_of(dim))
    for (const AxisId axis : split->axes) parts *= mesh.axes[axis].size;
  return graph.dimensions[dim].padded_size / parts;
}

}  // namespace simrun
