#include "planner/operator_strategies.h"

#include <algorithm>
#include <array>

namespace simrun {
namespace {

constexpr std::array divisible_names{"batch",    "sequence",   "hidden",  "kv_heads",     "qkv_rows",
                                     "ffn",      "shared_ffn", "vocab",   "experts",      "expert_ffn",
                                     "capacity", "channels",   "classes", "mamba_groups", "delta_heads"};

// Rules that say of each dimension over which axes it is, the last outermost.
std::vector<LayoutRule> rules_of_loops(const Graph& graph, const std::vector<DimensionId>& loops,
                                       const std::vector<std::int32_t>& loop_of_axis,
                                       const std::vector<std::string>& axes) {
  std::vector<LayoutRule> rules;
  for (std::size_t loop = 0; loop < loops.size(); ++loop) {
    LayoutRule rule{"", graph.dimensions[loops[loop]].name, {}, true};
    for (std::size_t axis = axes.size(); axis-- > 0;)
      if (loop_of_axis[axis] == static_cast<std::int32_t>(loop)) rule.axes.push_back(axes[axis]);
    rules.push_back(std::move(rule));
  }
  return rules;
}

bool divides(const Graph& graph, const std::vector<LayoutRule>& rules, const std::vector<DimensionId>& loops,
             const DeviceMesh& mesh) {
  for (std::size_t loop = 0; loop < loops.size(); ++loop) {
    std::int64_t parts = 1;
    for (const std::string& axis : rules[loop].axes) parts *= mesh.size(mesh.axes(axis));
    if (graph.dimensions[loops[loop]].padded_size % parts != 0) return false;
  }
  return true;
}

}  // namespace

std::vector<DimensionId> loops_of(const Graph& graph, const Operator& op) {
  std::vector<DimensionId> loops;
  std::vector<std::string> names;
  for (const DimensionId dim : iteration_space(graph, op)) {
    const std::string& name = graph.dimensions[dim].name;
    if (std::find(divisible_names.begin(), divisible_names.end(), name) == divisible_names.end()) continue;
    if (has(op.whole_dims, dim) || (op.regroup && op.regroup->to == dim)) continue;
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;  // rules go by names
    names.push_back(name);
    loops.push_back(dim);
  }
  return loops;
}

std::vector<OperatorStrategy> operator_strategies(const Graph& graph, const Operator& op,
                                                  const DeviceMesh& mesh,
                                                  const std::vector<std::string>& axes) {
  const std::vector<DimensionId> loops = loops_of(graph, op);
  const auto repeated = static_cast<std::int32_t>(loops.size());
  std::vector<OperatorStrategy> strategies;
  std::vector<std::int32_t> loop_of_axis(axes.size(), 0);
  for (bool more = true; more;) {
    const std::vector<LayoutRule> rules = rules_of_loops(graph, loops, loop_of_axis, axes);
    if (divides(graph, rules, loops, mesh)) {
      OperatorStrategy strategy{loop_of_axis, operator_layout(graph, op, rules, mesh)};
      for (std::int32_t& loop : strategy.loop_of_axis)
        if (loop == repeated) loop = -1;
      strategies.push_back(std::move(strategy));
    }
    more = false;
    for (std::size_t axis = 0; axis < axes.size() && !more; ++axis) {
      more = ++loop_of_axis[axis] <= repeated;
      if (!more) loop_of_axis[axis] = 0;
    }
  }
  return strategies;
}

}  // namespace simrun
