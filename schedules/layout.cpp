#include "schedules/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace simrun {
namespace {

bool contains(const std::vector<AxisId>& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

bool has_dim(const std::vector<DimensionId>& dims, DimensionId dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool in_scope(const std::string& scope, const Operator& op) {
  if (scope.empty() || scope == "*") return true;
  if (scope.back() == '*') return op.name.rfind(scope.substr(0, scope.size() - 1), 0) == 0;
  return op.name == scope || op.module == scope;
}

void sort_axes(std::vector<AxisId>& axes) { std::sort(axes.begin(), axes.end()); }

void add_split(Layout& layout, DimensionSplit split) {
  layout.splits.push_back(std::move(split));
  std::sort(layout.splits.begin(), layout.splits.end(),
            [](const DimensionSplit& a, const DimensionSplit& b) { return a.dim < b.dim; });
}

std::int64_t product(const std::vector<AxisId>& axes, const Mesh& mesh) {
  std::int64_t size = 1;
  for (const AxisId axis : axes) size *= mesh.axes[axis].size;
  return size;
}

// The part of an operator's layout that its operand with these dimensions sees; the other split axes go to
// `rest`.
Layout project(const Layout& layout, const std::vector<DimensionId>& dims, std::vector<AxisId>& rest) {
  Layout result;
  for (const DimensionSplit& split : layout.splits) {
    if (has_dim(dims, split.dim))
      result.splits.push_back(split);
    else
      rest.insert(rest.end(), split.axes.begin(), split.axes.end());
  }
  sort_axes(rest);
  return result;
}

// Axes of a rule that the mesh has with more than one rank and the operator has not used yet.
std::vector<AxisId> free_axes(const LayoutRule& rule, const Mesh& mesh, const std::vector<AxisId>& used) {
  std::vector<AxisId> axes;
  for (const std::string& name : rule.axes)
    for (std::size_t a = 0; a < mesh.axes.size(); ++a)
      if (mesh.axes[a].name == name && mesh.axes[a].size > 1 && !contains(used, static_cast<AxisId>(a)))
        axes.push_back(static_cast<AxisId>(a));
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

std::vector<LayoutRule> strategy_rules(const Job& job) {
  std::vector<LayoutRule> rules{
      {"", "batch", {"dp"}}, {"", "kv_heads", {"tp"}}, {"", "ffn", {"tp"}}, {"", "vocab", {"tp"}}};
  if (job.parallelism.sequence_parallel) rules.push_back({"", "sequence", {"tp"}});
  return rules;
}

Layout operator_layout(const Graph& graph, const Operator& op, const std::vector<LayoutRule>& rules,
                       const Mesh& mesh) {
  const std::vector<DimensionId> space = iteration_space(graph, op);
  Layout layout;
  std::vector<AxisId> used;
  for (const LayoutRule& rule : rules) {
    if (!in_scope(rule.scope, op)) continue;
    for (const DimensionId dim : space) {
      if (graph.dimensions[dim].name != rule.dim || has_dim(op.whole_dims, dim)) continue;
      const std::vector<AxisId> axes = free_axes(rule, mesh, used);
      if (axes.empty() || layout.split_of(dim) != nullptr) continue;
      require_divisible(graph, op, dim, product(axes, mesh));
      used.insert(used.end(), axes.begin(), axes.end());
      add_split(layout, {dim, axes});
    }
  }
  return layout;
}

Layout input_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t input) {
  std::vector<AxisId> rest;
  return project(layout, graph.tensors[op.inputs[input]].dims, rest);
}

Layout output_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t output) {
  std::vector<AxisId> rest;
  Layout result = project(layout, graph.tensors[op.outputs[output]].dims, rest);
  const bool contracts = op.opcode == Opcode::gemm || op.opcode == Opcode::gather ||
                         op.opcode == Opcode::reduce || op.opcode == Opcode::cross_entropy;
  if (contracts) (op.function == Function::max ? result.partial_max : result.partial_sum) = std::move(rest);
  return result;
}

Layout gradient_layout(const Graph& graph, const Operator& op, const Layout& layout, std::size_t input) {
  std::vector<AxisId> rest;
  Layout result = project(layout, graph.tensors[op.inputs[input]].dims, rest);
  result.partial_sum = std::move(rest);
  return result;
}

Layout without_partials(Layout layout) {
  layout.partial_sum.clear();
  layout.partial_max.clear();
  return layout;
}

namespace {

// Resolves the partial axes of `state` for one reduction: to a split where the target wants one over these
// axes, else to replicas.
void reduce_partials(Layout& state, const Layout& to, std::vector<AxisId> Layout::*partial,
                     Reduction reduction, std::vector<Conversion>& steps) {
  for (const DimensionSplit& wanted : to.splits) {
    std::vector<AxisId>& axes = state.*partial;
    const bool scatter =
        state.split_of(wanted.dim) == nullptr && !wanted.axes.empty() &&
        std::all_of(wanted.axes.begin(), wanted.axes.end(), [&](AxisId a) { return contains(axes, a); });
    if (!scatter) continue;
    std::erase_if(axes, [&](AxisId a) { return contains(wanted.axes, a); });
    add_split(state, wanted);
    steps.push_back({Opcode::reduce_scatter, wanted.axes, reduction, state});
  }
  if ((state.*partial).empty()) return;
  const std::vector<AxisId> axes = state.*partial;
  (state.*partial).clear();
  steps.push_back({Opcode::all_reduce, axes, reduction, state});
}

// A dimension split over axes that the target splits another dimension over: one exchange.
bool exchange_split(Layout& state, const Layout& to, std::size_t s, std::vector<Conversion>& steps) {
  const DimensionSplit held = state.splits[s];
  for (const DimensionSplit& wanted : to.splits) {
    if (wanted.axes != held.axes || wanted.dim == held.dim || state.split_of(wanted.dim) != nullptr) continue;
    state.splits.erase(state.splits.begin() + static_cast<std::ptrdiff_t>(s));
    add_split(state, wanted);
    steps.push_back({Opcode::all_to_all, held.axes, Reduction::sum, state});
    return true;
  }
  return false;
}

}  // namespace

std::vector<Conversion> conversions(const Layout& from, const Layout& to) {
  Layout state = from;
  std::vector<Conversion> steps;
  reduce_partials(state, to, &Layout::partial_sum, Reduction::sum, steps);
  reduce_partials(state, to, &Layout::partial_max, Reduction::max, steps);
  for (std::size_t s = 0; s < state.splits.size();) {
    const DimensionSplit* wanted = to.split_of(state.splits[s].dim);
    if (wanted != nullptr && *wanted == state.splits[s]) {
      ++s;
    } else if (!exchange_split(state, to, s, steps)) {
      const std::vector<AxisId> axes = state.splits[s].axes;
      state.splits.erase(state.splits.begin() + static_cast<std::ptrdiff_t>(s));
      steps.push_back({Opcode::all_gather, axes, Reduction::sum, state});
    } else {
      s = 0;
    }
  }
  for (const DimensionSplit& wanted : to.splits) {
    if (state.split_of(wanted.dim) != nullptr) continue;
    add_split(state, wanted);
    steps.push_back({Opcode::copy, wanted.axes, Reduction::sum, state});
  }
  return steps;
}

std::string describe(const Layout& layout, const Graph& graph, const Mesh& mesh) {
  const auto names = [&](const std::vector<AxisId>& axes) {
    std::string text;
    for (const AxisId axis : axes) text += (text.empty() ? "" : " x ") + mesh.axes[axis].name;
    return text;
  };
  std::vector<std::string> parts;
  for (const DimensionSplit& split : layout.splits)
    parts.push_back(fmt::format("{} split over {}", graph.dimensions[split.dim].name, names(split.axes)));
  if (!layout.partial_sum.empty()) parts.push_back("partial sum over " + names(layout.partial_sum));
  if (!layout.partial_max.empty()) parts.push_back("partial max over " + names(layout.partial_max));
  return parts.empty() ? "replicated" : fmt::format("{}", fmt::join(parts, ", "));
}

std::int64_t local_extent(const Graph& graph, const Layout& layout, DimensionId dim, const Mesh& mesh) {
  const DimensionSplit* split = layout.split_of(dim);
  return graph.dimensions[dim].padded_size / (split == nullptr ? 1 : product(split->axes, mesh));
}

}  // namespace simrun
