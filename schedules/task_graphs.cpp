#include "schedules/task_graphs.h"

#include <algorithm>
#include <array>
#include <set>

#include "models/model_scope.h"
#include "schedules/device_mesh.h"

namespace simrun {
namespace {

constexpr std::array rows_of_tokens{"batch", "sequence"};
constexpr std::array parts_of_layers{"kv_heads", "qkv_rows", "ffn",          "shared_ffn",
                                     "vocab",    "classes",  "mamba_groups", "delta_heads"};

std::set<std::string> dimensions_in(const ScopePattern& scope, const Graph& graph) {
  std::set<std::string> names;
  for (const Operator& op : graph.operators)
    if (holds(scope, graph, op))
      for (const DimensionId dim : iteration_space(graph, op)) names.insert(graph.dimensions[dim].name);
  return names;
}

}  // namespace

LayoutConfig with_task_graphs(LayoutConfig layout, const Graph& graph) {
  for (RegionRule& rule : layout.rules) {
    const TaskGraph& of = rule.task_graph;
    if (of.kind == TaskGraph::Kind::none) continue;
    const std::set<std::string> present = dimensions_in(rule.scope, graph);
    const auto choose = [&](const std::string& dim, bool is_split) {
      if (present.count(dim) == 0) return;
      DimensionChoice choice{dim, {}, of.position, {of.position}};
      if (is_split) choice.axes = {axis_of_ranks(of.count)};
      rule.choices.push_back(std::move(choice));
    };
    const bool by_batch = of.kind == TaskGraph::Kind::replicate;
    for (const std::string dim : rows_of_tokens) choose(dim, by_batch && dim == "batch");
    for (const std::string dim : parts_of_layers) choose(dim, !by_batch);
  }
  return layout;
}

}  // namespace simrun
