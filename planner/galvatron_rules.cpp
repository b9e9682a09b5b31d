// A plan of Galvatron's search in the words of a job.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "configs/layer_list.h"
#include "configs/pipeline_layout.h"
#include "models/model_graph.h"
#include "planner/galvatron_search.h"
#include "planner/operator_choice.h"
#include "planner/operator_strategies.h"
#include "planner/sub_mesh.h"
#include "schedules/layout_rules.h"

namespace simrun {
namespace {

bool is_split_alike(const GalvatronPlan& plan) {
  return std::ranges::all_of(plan.layers,
                             [&](const LayerStrategy& of) { return of.split == plan.point.ends; });
}

template <typename Predicate>
std::vector<std::int64_t> layers_where(const GalvatronPlan& plan, const Predicate& is_meant) {
  std::vector<std::int64_t> layers;
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer)
    if (is_meant(plan.layers[layer])) layers.push_back(static_cast<std::int64_t>(layer));
  return layers;
}

// One axis per step between two sizes of groups of neighbours.
OwnAxes axes_of_splits(const GalvatronPlan& plan) {
  std::vector<std::int64_t> cuts{1, plan.stage_ranks};
  const auto add_cuts = [&](const LayerSplit& split) {
    cuts.insert(cuts.end(), {split.tensor, split.sharing()});
  };
  add_cuts(plan.point.ends);
  for (const LayerStrategy& layer : plan.layers) add_cuts(layer.split);
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  OwnAxes axes;
  for (std::size_t c = 1; c < cuts.size(); ++c)
    axes.emplace_back(fmt::format("m{}", c - 1), cuts[c] / cuts[c - 1]);
  return axes;
}

// Groups of ranks [begin, end) apart, the outermost axis first.
std::vector<std::string> axes_within(const OwnAxes& axes, std::int64_t begin, std::int64_t end) {
  std::vector<std::string> names;
  std::int64_t stride = 1;
  for (const auto& [name, size] : axes) {
    if (stride >= begin && stride < end) names.push_back(name);
    stride *= size;
  }
  std::reverse(names.begin(), names.end());
  return names;
}

// How the operators of the model are laid out where all have one split: what a uniform job's rules give.
class SplitLayouts {
 public:
  SplitLayouts(const Job& job, const LayerSplit& split, const GalvatronPlan& plan)
      : split_(split), stage_ranks_(plan.stage_ranks), job_(uniform_job(job, split, plan)) {
    graph_ = build_graph(job_);
    mesh_ = mesh_of(job_);
    layouts_ = layouts_of(job_, graph_, mesh_);
  }

  const Graph& graph() const { return graph_; }

  // In terms of own axes.
  OperatorChoice choice_of(std::size_t op, const OwnAxes& axes) const {
    OperatorChoice choice;
    choice.scope = graph_.operators[op].name;
    for (const DimensionId loop : loops_of(graph_, graph_.operators[op])) {
      const std::string& name = graph_.dimensions[loop].name;
      std::vector<std::string> over;
      if (const DimensionSplit* split = layouts_[op].split_of(loop))
        for (const AxisId axis : split->axes)
          for (std::string& part : parts_of(axis, axes)) over.push_back(std::move(part));
      if (over.empty())
        choice.whole.push_back(name);
      else
        choice.split.emplace_back(name, std::move(over));
    }
    return choice;
  }

 private:
  static Job uniform_job(const Job& job, const LayerSplit& split, const GalvatronPlan& plan) {
    Job uniform = with_split(job, split);
    Parallelism& parallelism = uniform.parallelism;
    parallelism.data_parallel_size = plan.stage_ranks / split.sharing();
    parallelism.pipeline_model_parallel_size = parallelism.virtual_pipeline_model_parallel_size = 1;
    parallelism.stages = {{true, job.model.num_layers, true, 0}};
    uniform.training.micro_batch_size = plan.point.sequences / parallelism.data_parallel_size;
    uniform.training.global_batch_size = plan.point.sequences;
    uniform.layout = {};
    return uniform;
  }

  std::vector<std::string> parts_of(AxisId axis, const OwnAxes& axes) const {
    switch (mesh_.kind[axis]) {
      case 't': return axes_within(axes, 1, split_.tensor);
      case 'c': return axes_within(axes, split_.tensor, split_.sharing());
      default: return axes_within(axes, split_.sharing(), stage_ranks_);
    }
  }

  LayerSplit split_;
  std::int64_t stage_ranks_;
  Job job_;
  Graph graph_;
  DeviceMesh mesh_;
  std::vector<Layout> layouts_;
};

std::string layout_section(const Job& job, const GalvatronPlan& plan) {
  const OwnAxes axes = axes_of_splits(plan);
  std::map<LayerSplit, SplitLayouts> layouts;
  const auto layouts_with = [&](const LayerSplit& split) -> const SplitLayouts& {
    const auto known = layouts.find(split);
    return known != layouts.end() ? known->second
                                  : layouts.emplace(split, SplitLayouts(job, split, plan)).first->second;
  };
  const Graph& graph = layouts_with(plan.point.ends).graph();
  OperatorChoices choices;
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const std::int32_t layer = graph.operators[o].layer;
    const LayerSplit& split =
        layer < 0 ? plan.point.ends : plan.layers[static_cast<std::size_t>(layer)].split;
    OperatorChoice choice = layouts_with(split).choice_of(o, axes);
    if (!choice.split.empty() || !choice.whole.empty()) choices.add(std::move(choice), layer);
  }
  return layout_text(axes, choices.joined());
}

std::string stages_text(const GalvatronPlan& plan) {
  std::vector<StageContent> contents;
  for (const GalvatronStage& stage : plan.stages)
    contents.push_back({false, stage.last_layer - stage.first_layer, false, 0});
  contents.front().embedding = true;
  contents.back().loss = true;
  return pipeline_layout_text(contents);
}

void add_sharding(const Job& job, const GalvatronPlan& plan, std::vector<Override>& overrides) {
  overrides.push_back({"optimizer.zero_stage", fmt::format("{}", plan.point.zero_stage)});
  overrides.push_back({"optimizer.overlap_grad_reduce", "true"});
  overrides.push_back({"optimizer.overlap_param_gather", "true"});
  // A sharded layer is gathered in one piece, also where the job cuts what is gathered: of several, only the
  // next one would be gathered ahead of its readers.
  if (plan.unit_elements > 0 && job.optimizer.gather_bucket_size > 0)
    overrides.push_back({"optimizer.gather_bucket_size",
                         fmt::format("{}", std::max(plan.unit_elements, job.optimizer.gather_bucket_size))});
  const std::string sharded =
      plan.point.zero_stage == 3
          ? ""
          : layer_list_text(layers_where(plan, [](const LayerStrategy& of) { return of.sharded; }));
  if (!sharded.empty() || !job.optimizer.zero_3_layers.empty())
    overrides.push_back({"optimizer.zero_3_layers", fmt::format("\"{}\"", sharded)});
}

std::string recompute_section(const GalvatronPlan& plan) {
  const auto recomputed = layers_where(plan, [](const LayerStrategy& of) { return of.recomputed; });
  if (recomputed.empty()) return "{granularity: none}";
  if (recomputed.size() == plan.layers.size()) return "{granularity: full}";
  return fmt::format("{{granularity: full, layers: \"{}\"}}", layer_list_text(recomputed));
}

}  // namespace

std::vector<Override> galvatron_overrides(const Job& job, const GalvatronPlan& plan) {
  const bool is_plain = is_split_alike(plan);
  const LayerSplit& ends = plan.point.ends;
  // Where layers differ, the ranks that no layer gives a sequence of their own.
  const std::int64_t tensor = is_plain ? ends.tensor : tensor_ranks(plan.point.sequences, plan.stage_ranks);
  const std::int64_t context = is_plain ? ends.context : 1;
  const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
  std::vector<Override> overrides{
      {"parallelism.tensor_model_parallel_size", number(tensor)},
      {"parallelism.context_parallel_size", number(context)},
      {"parallelism.sequence_parallel", is_plain && tensor > 1 ? "true" : "false"},
      {"parallelism.pipeline_model_parallel_size", number(plan.point.pipeline)},
      {"parallelism.virtual_pipeline_model_parallel_size", "1"},
      {"parallelism.pipeline_schedule", "1f1b"},
      {"parallelism.pipeline_model_parallel_layout", fmt::format("\"{}\"", stages_text(plan))},
      {"training.micro_batch_size", number(plan.point.sequences * tensor * context / plan.stage_ranks)},
      {"recompute", recompute_section(plan)}};
  if (job.model.experts.count > 0) {
    overrides.push_back({"parallelism.expert_model_parallel_size", number(ends.expert)});
    overrides.push_back({"parallelism.expert_tensor_parallel_size", number(ends.expert_tensor)});
  }
  if (context > 1) {
    overrides.push_back({"parallelism.cp_comm_type", "a2a"});
    overrides.push_back({"parallelism.context_parallel_layout", "contiguous"});
  }
  add_sharding(job, plan, overrides);
  if (!is_plain) overrides.push_back({"layout", layout_section(job, plan)});
  return overrides;
}

}  // namespace simrun
