#include "planner/alpa_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "configs/pipeline_layout.h"

namespace simrun {

namespace {

// x and y where all stages have one logical mesh, else an axis per step between two sizes of x.
OwnAxes axes_of(const std::vector<StageLayouts>& stages) {
  std::vector<std::int64_t> cuts{1, stages.front().mesh.devices()};
  for (const StageLayouts& stage : stages) cuts.push_back(stage.mesh.x);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  OwnAxes axes;
  for (std::size_t c = 1; c < cuts.size(); ++c) {
    std::string name = cuts.size() <= 3 ? std::string(1, "xy"[c - 1]) : fmt::format("m{}", c - 1);
    axes.emplace_back(std::move(name), cuts[c] / cuts[c - 1]);
  }
  return axes;
}

// A stage's own, where stages are of unlike size.
OwnAxes parallel_axes(const LogicalMesh& mesh) {
  OwnAxes axes;
  if (mesh.x > 1) axes.emplace_back("tp", mesh.x);
  if (mesh.y > 1) axes.emplace_back("dp", mesh.y);
  return axes;
}

// Of the own mesh, the outermost first.
std::vector<std::string> parts_of(const OwnAxes& axes, const std::string& logical, const LogicalMesh& mesh) {
  std::vector<std::string> parts;
  std::int64_t size = 1;
  for (const auto& [name, ranks] : axes) {
    if ((size < mesh.x) == (logical == "x")) parts.push_back(name);
    size *= ranks;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

OperatorChoice choice_of(const StageLayouts& stage, std::size_t node, const OwnAxes& axes) {
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

std::string stages_text(const AlpaPlan& plan) {
  std::vector<StageContent> contents;
  for (const AlpaStage& stage : plan.stages)
    contents.push_back({false, stage.last_layer - stage.first_layer, false, 0});
  contents.front().embedding = true;
  contents.back().loss = true;
  return pipeline_layout_text(contents);
}

bool is_dealt_equally(const AlpaPlan& plan) {
  return std::ranges::all_of(plan.stages, [&](const AlpaStage& stage) {
    return stage.last_layer - stage.first_layer == plan.stages.front().last_layer;
  });
}

}  // namespace

void add_rules(const std::vector<StageLayouts>& stages, AlpaPlan& plan) {
  if (!plan.unlike) plan.axes = axes_of(stages);
  if (plan.axes.empty() && !plan.unlike) return;  // one device per stage
  OperatorChoices choices;
  for (const StageLayouts& stage : stages)
    for (std::size_t node = 0; node < stage.part.operators.size(); ++node) {
      const Operator& op = stage.graph->graph.operators[stage.part.operators[node]];
      OperatorChoice choice = choice_of(stage, node, plan.unlike ? parallel_axes(stage.mesh) : plan.axes);
      if (choice.split.empty() && choice.whole.empty()) continue;
      choice.scope = op.name;
      choices.add(std::move(choice), op.layer);
    }
  plan.operators = choices.joined();
}

std::string alpa_name(const AlpaPlan& plan) {
  std::string name =
      fmt::format("pipeline {}, {} microbatches, ZeRO-{}", plan.pipeline, plan.microbatches, plan.zero_stage);
  if (!plan.recompute.empty()) name += ", recompute " + plan.recompute;
  if (plan.unlike) name += ", unlike stages";
  if (plan.schedule != AlpaPlan{}.schedule) name += ", " + plan.schedule;
  if (plan.virtual_stages > 1) name += fmt::format(" x {}", plan.virtual_stages);
  return name;
}

std::vector<Override> alpa_overrides(const AlpaPlan& plan) {
  const auto ranks = plan.stages.front().mesh.devices();
  std::vector<Override> overrides{
      {"parallelism.tensor_model_parallel_size", fmt::format("{}", plan.tensor)},
      {"parallelism.pipeline_model_parallel_size", fmt::format("{}", plan.pipeline)},
      {"parallelism.virtual_pipeline_model_parallel_size", fmt::format("{}", plan.virtual_stages)},
      {"parallelism.context_parallel_size", "1"},
      {"parallelism.expert_model_parallel_size", "1"},
      {"parallelism.expert_tensor_parallel_size", "1"},
      {"parallelism.sequence_parallel", "false"},
      {"parallelism.pipeline_schedule", plan.schedule},
      {"parallelism.pipeline_model_parallel_layout",
       plan.virtual_stages > 1 && is_dealt_equally(plan) ? "\"\"" : fmt::format("\"{}\"", stages_text(plan))},
      {"optimizer.zero_stage", fmt::format("{}", plan.zero_stage)},
      {"training.micro_batch_size", fmt::format("{}", plan.sequences / (ranks / plan.tensor))}};
  for (Override& recompute : recompute_overrides(plan)) overrides.push_back(std::move(recompute));
  if (plan.unlike) {
    std::vector<std::int64_t> tensor, data;
    for (const AlpaStage& stage : plan.stages) {
      tensor.push_back(stage.mesh.x);
      data.push_back(stage.mesh.y);
    }
    overrides.push_back(
        {"parallelism.stage_tensor_model_parallel_sizes", fmt::format("[{}]", fmt::join(tensor, ", "))});
    overrides.push_back(
        {"parallelism.stage_data_parallel_sizes", fmt::format("[{}]", fmt::join(data, ", "))});
    overrides.push_back({"layout", layout_text({}, plan.operators)});
  }
  if (!plan.axes.empty()) overrides.push_back({"layout", layout_text(plan.axes, plan.operators)});
  return overrides;
}

std::vector<Override> recompute_overrides(const AlpaPlan& plan) {
  if (plan.recompute.empty()) return {};
  // A word in place of the section, so that none of its keys is left.
  return {{"recompute", "none"}, {"recompute", fmt::format("{{granularity: {}}}", plan.recompute)}};
}

}  // namespace simrun
