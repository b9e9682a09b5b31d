#include "planner/alpa_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "configs/pipeline_layout.h"

namespace simrun {

namespace {

using Axes = std::vector<std::pair<std::string, std::int64_t>>;

// x and y where all stages have one logical mesh, else an axis per step between two sizes of x.
Axes axes_of(const std::vector<StageLayouts>& stages) {
  std::vector<std::int64_t> cuts{1, stages.front().mesh.devices()};
  for (const StageLayouts& stage : stages) cuts.push_back(stage.mesh.x);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Axes axes;
  for (std::size_t c = 1; c < cuts.size(); ++c) {
    std::string name = cuts.size() <= 3 ? std::string(1, "xy"[c - 1]) : fmt::format("m{}", c - 1);
    axes.emplace_back(std::move(name), cuts[c] / cuts[c - 1]);
  }
  return axes;
}

// Of the own mesh, the outermost first.
std::vector<std::string> parts_of(const Axes& axes, const std::string& logical, const LogicalMesh& mesh) {
  std::vector<std::string> parts;
  std::int64_t size = 1;
  for (const auto& [name, ranks] : axes) {
    if ((size < mesh.x) == (logical == "x")) parts.push_back(name);
    size *= ranks;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

OperatorChoice choice_of(const StageLayouts& stage, std::size_t node, const Axes& axes) {
  const StageGraph& graph = *stage.graph;
  const Operator& op = graph.graph.operators[stage.part.operators[node]];
  const OperatorStrategy& strategy =
      graph.strategies[stage.part.operators[node]][stage.chosen.strategies[node]];
  const std::vector<DimensionId> loops = loops_of(graph.graph, op);
  OperatorChoice choice;
  for (std::size_t loop = 0; loop < loops.size(); ++loop) {
    std::vector<std::string> over;
    for (std::size_t axis = graph.axes.size(); axis-- > 0;)
      if (strategy.loop_of_axis[axis] == static_cast<std::int32_t>(loop))
        for (const std::string& part : parts_of(axes, graph.axes[axis], stage.mesh)) over.push_back(part);
    const std::string& name = graph.graph.dimensions[loops[loop]].name;
    if (over.empty())
      choice.whole.push_back(name);
    else
      choice.split.emplace_back(name, std::move(over));
  }
  return choice;
}

// "0-5,8"
std::string ranges_text(const std::vector<std::int32_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += end - i == 1 ? fmt::format("{}", layers[i]) : fmt::format("{}-{}", layers[i], layers[end - 1]);
    i = end;
  }
  return text;
}

std::string split_text(const OperatorChoice& choice) {
  std::vector<std::string> dims;
  for (const auto& [dim, axes] : choice.split)
    dims.push_back(axes.size() == 1 ? fmt::format("{}: {}", dim, axes.front())
                                    : fmt::format("{}: [{}]", dim, fmt::join(axes, ", ")));
  return fmt::format("{}", fmt::join(dims, ", "));
}

std::string rule_text(const OperatorChoice& choice) {
  std::string text = fmt::format("{{scope: \"{}\"", choice.scope);
  if (!choice.split.empty()) text += fmt::format(", split: {{{}}}", split_text(choice));
  if (!choice.whole.empty()) text += fmt::format(", replicate: [{}]", fmt::join(choice.whole, ", "));
  return text + "}";
}

std::string layout_text(const AlpaPlan& plan) {
  std::vector<std::string> axes, rules;
  for (const auto& [name, size] : plan.axes) axes.push_back(fmt::format("{}: {}", name, size));
  for (const OperatorChoice& choice : plan.operators) rules.push_back(rule_text(choice));
  return fmt::format("{{mesh: {{{}}}, rules: [{}]}}", fmt::join(axes, ", "), fmt::join(rules, ", "));
}

std::string stages_text(const AlpaPlan& plan) {
  std::vector<StageContent> contents;
  for (const AlpaStage& stage : plan.stages)
    contents.push_back({false, stage.last_layer - stage.first_layer, false, 0});
  contents.front().embedding = true;
  contents.back().loss = true;
  return pipeline_layout_text(contents);
}

}  // namespace

void add_rules(const std::vector<StageLayouts>& stages, AlpaPlan& plan) {
  plan.axes = axes_of(stages);
  if (plan.axes.empty()) return;  // one device per stage
  struct ScopeOfRule {
    OperatorChoice choice;
    std::vector<std::int32_t> layers;
  };
  std::vector<std::string> order;  // as operators come
  std::map<std::string, ScopeOfRule> scopes;
  for (const StageLayouts& stage : stages)
    for (std::size_t node = 0; node < stage.part.operators.size(); ++node) {
      const Operator& op = stage.graph->graph.operators[stage.part.operators[node]];
      OperatorChoice choice = choice_of(stage, node, plan.axes);
      if (choice.split.empty() && choice.whole.empty()) continue;
      choice.scope = op.name;
      const std::string key = fmt::format("{} {}", op.layer < 0, rule_text(choice));
      const auto [scope, is_new] = scopes.try_emplace(key);
      if (is_new) {
        order.push_back(key);
        scope->second.choice = std::move(choice);
      }
      if (op.layer >= 0) scope->second.layers.push_back(op.layer);
    }
  for (const std::string& key : order) {
    ScopeOfRule& scope = scopes.at(key);
    if (!scope.layers.empty())
      scope.choice.scope = fmt::format("layers[{}].{}", ranges_text(scope.layers), scope.choice.scope);
    plan.operators.push_back(std::move(scope.choice));
  }
}

std::vector<Override> alpa_overrides(const AlpaPlan& plan) {
  const auto ranks = plan.stages.front().mesh.devices();
  std::vector<Override> overrides{
      {"parallelism.tensor_model_parallel_size", fmt::format("{}", plan.tensor)},
      {"parallelism.pipeline_model_parallel_size", fmt::format("{}", plan.pipeline)},
      {"parallelism.virtual_pipeline_model_parallel_size", "1"},
      {"parallelism.context_parallel_size", "1"},
      {"parallelism.expert_model_parallel_size", "1"},
      {"parallelism.expert_tensor_parallel_size", "1"},
      {"parallelism.sequence_parallel", "false"},
      {"parallelism.pipeline_schedule", plan.schedule},
      {"parallelism.pipeline_model_parallel_layout", fmt::format("\"{}\"", stages_text(plan))},
      {"optimizer.zero_stage", fmt::format("{}", plan.zero_stage)},
      {"training.micro_batch_size", fmt::format("{}", plan.sequences / (ranks / plan.tensor))}};
  if (!plan.axes.empty()) overrides.push_back({"layout", layout_text(plan)});
  return overrides;
}

}  // namespace simrun
