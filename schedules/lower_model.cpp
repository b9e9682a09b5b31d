#include "schedules/lower_model.h"

#include <optional>
#include <utility>

#include "models/model_graph.h"
#include "models/trained_parameters.h"
#include "schedules/context_parallel.h"
#include "schedules/fp8_linears.h"
#include "schedules/layout_rules.h"
#include "schedules/plan_frame.h"

namespace simrun {
namespace {

// Which dimensions every operator splits, and which operators are repeated in the backward pass.
struct Strategy {
  std::vector<Layout> layouts;  // by operator
  RecomputeRegions regions;
  ContextParallelism context_parallel;
  std::optional<Fp8Linears> fp8 = {};
};

Graph graph_of(const Job& job, const ContextParallelism& context_parallel) {
  Graph graph = build_graph(job);
  if (!context_parallel.separates_keys()) return graph;
  return with_separate_keys(std::move(graph),
                            context_parallel.is_ring() ? KeysOfAttention::in_a_ring : KeysOfAttention::whole);
}

// Every operator as its own stage lays it out.
std::vector<Layout> layouts_of_stages(const Job& job, const LoweredModel& model) {
  if (model.meshes.size() == 1) return layouts_of(job, model.graph, model.mesh(0));
  std::vector<Layout> layouts(model.graph.operators.size());
  for (std::size_t stage = 0; stage < model.meshes.size(); ++stage) {
    const std::vector<std::size_t>& own = model.partition.operators[stage];
    std::vector<Layout> of_stage = layouts_of(job_of_stage(job, stage), model.graph, model.mesh(stage), &own);
    for (const std::size_t o : own) layouts[o] = std::move(of_stage[o]);
  }
  return layouts;
}

Strategy strategy_of(const Job& job, const LoweredModel& model) {
  Strategy strategy;
  strategy.layouts = layouts_of_stages(job, model);
  strategy.regions = recompute_regions(model.graph, job.recompute, model.partition);
  if (job.training.fp8) strategy.fp8 = fp8_linears(job, model.graph, strategy.layouts, model.mesh(0));
  return strategy;
}

// As its operator leaves it, summed up.
Layout written_layout(const LoweredModel& model, const Strategy& strategy, TensorId tensor) {
  for (std::size_t o = 0; o < model.graph.operators.size(); ++o) {
    const Operator& op = model.graph.operators[o];
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      if (op.outputs[i] == tensor)
        return without_partials(output_layout(model.graph, op, strategy.layouts[o], i));
  }
  return {};
}

std::int64_t local_elements(const LoweredModel& model, TensorId tensor, const Layout& layout,
                            const DeviceMesh& mesh) {
  std::int64_t elements = 1;
  for (const DimensionId dim : model.graph.tensors[tensor].dims)
    elements *= local_extent(model.graph, layout, dim, mesh.mesh);
  return elements;
}

// As the first operator behind the border reads it, unless it is written in smaller parts: then these go over
// the border, and the ranks behind it gather them from each other (Zheng et al. 2022, section 6, "local
// all-gather"; Narayanan et al. 2021, section 4.1), which their links inside a node do faster.
// Over the axes that both stages have.
std::vector<BorderTensor> border_tensors(const LoweredModel& model, const Strategy& strategy,
                                         std::size_t border) {
  std::vector<BorderTensor> tensors;
  const DeviceMesh &before = model.mesh(border), &behind = model.mesh(border + 1);
  for (const Crossing& crossing : model.partition.borders[border]) {
    Layout layout = input_layout(model.graph, model.graph.operators[crossing.reader],
                                 strategy.layouts[crossing.reader], crossing.input);
    layout = common_layout(std::move(layout), before, behind);
    Layout written = common_layout(written_layout(model, strategy, crossing.tensor), before, behind);
    if (local_elements(model, crossing.tensor, written, before) <
        local_elements(model, crossing.tensor, layout, before))
      layout = std::move(written);
    tensors.push_back({crossing.tensor, std::move(layout)});
  }
  return tensors;
}

std::vector<std::uint8_t> streams_of(const DeviceMesh& mesh) {
  std::vector<std::uint8_t> streams;
  for (const char kind : mesh.kind)
    streams.push_back(kind == 't' ? StreamIndex::tp : kind == 'c' ? StreamIndex::cp : StreamIndex::dp);
  return streams;
}

ChunkContext context_of(const Job& job, const LoweredModel& model, Strategy& strategy,
                        const std::vector<std::uint8_t>& stream_of_axis, std::size_t stage) {
  const Partition& partition = model.partition;
  ChunkContext context{model.graph,
                       strategy.layouts,
                       strategy.regions,
                       model.mesh(stage),
                       stream_of_axis,
                       expert_stream(job),
                       strategy.context_parallel,
                       job.training.precision,
                       partition.operators[stage],
                       {},
                       {}};
  if (strategy.fp8) context.fp8 = &*strategy.fp8;
  if (stage > 0) {
    context.inputs = border_tensors(model, strategy, stage - 1);
    context.beyond_before = axes_beyond(model.mesh(stage), model.mesh(stage - 1));
  }
  if (stage + 1 < partition.operators.size()) {
    context.outputs = border_tensors(model, strategy, stage);
    context.beyond_next = axes_beyond(model.mesh(stage), model.mesh(stage + 1));
  }
  return context;
}

}  // namespace

LoweredModel lower_model(const Job& job) {
  LoweredModel model;
  model.meshes = stage_meshes(job);
  ContextParallelism context_parallel(job, model.mesh(0));
  model.graph = graph_of(job, context_parallel);
  select_trained(model.graph, job);
  model.partition = partition(model.graph, job.parallelism.stages);
  Strategy strategy = strategy_of(job, model);
  strategy.context_parallel = std::move(context_parallel);
  const std::vector<std::uint8_t> stream_of_axis = streams_of(model.mesh(0));
  for (std::size_t stage = 0; stage < model.partition.operators.size(); ++stage) {
    const ChunkContext context = context_of(job, model, strategy, stream_of_axis, stage);
    ChunkCode code;
    lower_forward(context, code);
    lower_backward(context, code);
    settle_saved_copies(context, code);
    model.stages.push_back(std::move(code));
  }
  model.tables = strategy.context_parallel.tables();
  model.layouts = strategy.layouts;
  return model;
}

}  // namespace simrun
