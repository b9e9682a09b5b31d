#include "planner/tied_choices.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/choice_chain.h"

namespace simrun {
namespace {

struct TiedReader {
  std::size_t node = 0, input = 0;
};

std::optional<TiedReader> reader_of(const StageLayouts& stage, TensorId parameter) {
  for (std::size_t node = 0; node < stage.part.operators.size(); ++node) {
    const std::vector<TensorId>& inputs = stage.graph->graph.operators[stage.part.operators[node]].inputs;
    const auto found = std::find(inputs.begin(), inputs.end(), parameter);
    if (found != inputs.end()) return TiedReader{node, static_cast<std::size_t>(found - inputs.begin())};
  }
  return {};
}

// The first parameter that both read. Graphs of the same model have the same numbers of tensors.
std::optional<TensorId> shared_parameter(const StageLayouts& first, const StageLayouts& last) {
  for (const std::size_t o : first.part.operators)
    for (const TensorId input : first.graph->graph.operators[o].inputs)
      if (first.graph->graph.tensors[input].kind == TensorKind::parameter && reader_of(last, input))
        return input;
  return {};
}

// How many parts each dimension of the parameter has, over ranks how far apart, and last over which its
// gradient is summed. Meshes of both stages have the same ranks but other axes.
using RankSteps = std::vector<std::pair<std::int64_t, std::int64_t>>;  // stride, ranks; the outermost first
using ParameterSplit = std::vector<RankSteps>;

// Axes that follow one another are one.
RankSteps steps_of(const std::vector<AxisId>& outermost_first, const std::vector<Axis>& axes) {
  RankSteps steps;
  for (const AxisId axis : outermost_first) {
    std::int64_t stride = 1;
    for (AxisId before = 0; before < axis; ++before) stride *= axes[before].size;
    const std::int64_t size = axes[axis].size;
    if (size == 1) continue;
    if (!steps.empty() && steps.back().first == stride * size)
      steps.back() = {stride, steps.back().second * size};
    else
      steps.emplace_back(stride, size);
  }
  return steps;
}

ParameterSplit split_of(const StageLayouts& stage, const TiedReader& reader, std::size_t strategy) {
  const std::size_t o = stage.part.operators[reader.node];
  const Graph& graph = stage.graph->graph;
  const Operator& op = graph.operators[o];
  const Layout layout = gradient_layout(graph, op, stage.graph->strategies[o][strategy].layout, reader.input);
  const std::vector<Axis>& axes = stage.graph->mesh.mesh.axes;
  ParameterSplit split;
  for (const DimensionId dim : graph.tensors[op.inputs[reader.input]].dims) {
    const DimensionSplit* over = layout.split_of(dim);
    split.push_back(over == nullptr ? RankSteps{} : steps_of(over->axes, axes));
  }
  split.push_back(steps_of({layout.partial_sum.rbegin(), layout.partial_sum.rend()}, axes));
  return split;
}

Choice chosen_with(const StageLayouts& stage, const TiedReader& reader, const ParameterSplit& split,
                   const ChoiceLimits& limits) {
  ChoiceGraph choices = stage.part.choices;
  std::vector<double>& cost = choices.nodes[reader.node].cost;
  for (std::size_t s = 0; s < cost.size(); ++s)
    if (split_of(stage, reader, s) != split) cost[s] = forbidden_cost;
  const std::vector<Choice> best = choose_strategies(choices, limits);
  return best.empty() ? Choice{forbidden_cost, 0, {}} : best.front();
}

}  // namespace

bool choose_tied(StageLayouts& first, StageLayouts& last, const ChoiceLimits& limits) {
  const std::optional<TensorId> parameter = shared_parameter(first, last);
  if (!parameter) return true;
  const TiedReader of_first = *reader_of(first, *parameter), of_last = *reader_of(last, *parameter);
  std::vector<ParameterSplit> tried;
  double best = forbidden_cost;
  for (std::size_t s = 0; s < first.part.choices.nodes[of_first.node].cost.size(); ++s) {
    const ParameterSplit split = split_of(first, of_first, s);
    if (std::find(tried.begin(), tried.end(), split) != tried.end()) continue;
    tried.push_back(split);
    Choice a = chosen_with(first, of_first, split, limits), b = chosen_with(last, of_last, split, limits);
    if (a.cost + b.cost >= best) continue;
    best = a.cost + b.cost;
    first.chosen = std::move(a);
    last.chosen = std::move(b);
  }
  return best < forbidden_cost;
}

}  // namespace simrun
