#include "schedules/lower_model.h"

#include <utility>

#include "models/decoder.h"
#include "models/trained_parameters.h"
#include "schedules/layout_rules.h"
#include "schedules/plan_frame.h"

namespace simrun {
namespace {

// Which dimensions every operator splits, and which operators are repeated in the backward pass.
struct Strategy {
  std::vector<Layout> layouts;  // by operator
  RecomputeRegions regions;
};

Strategy strategy_of(const Job& job, const LoweredModel& model) {
  Strategy strategy;
  strategy.layouts = layouts_of(job, model.graph, model.mesh);
  std::vector<std::int32_t> first_layer;
  for (const std::int32_t stage : model.partition.stage_of)
    first_layer.push_back(model.partition.first_layer[static_cast<std::size_t>(stage)]);
  strategy.regions = recompute_regions(model.graph, job.recompute, first_layer);
  return strategy;
}

// As the first operator behind the border reads it.
Layout border_layout(const LoweredModel& model, const Strategy& strategy, std::size_t border) {
  const std::size_t reader = model.partition.border_reader[border];
  return input_layout(model.graph, model.graph.operators[reader], strategy.layouts[reader],
                      model.partition.border_reader_input[border]);
}

std::vector<std::uint8_t> streams_of(const DeviceMesh& mesh) {
  std::vector<std::uint8_t> streams;
  for (const char kind : mesh.kind)
    streams.push_back(kind == 't' ? StreamIndex::tp : kind == 'c' ? StreamIndex::cp : StreamIndex::dp);
  return streams;
}

ChunkContext context_of(const Job& job, const LoweredModel& model, const Strategy& strategy,
                        const std::vector<std::uint8_t>& stream_of_axis, std::size_t stage) {
  const Partition& partition = model.partition;
  ChunkContext context{model.graph,
                       strategy.layouts,
                       strategy.regions,
                       model.mesh,
                       stream_of_axis,
                       expert_stream(job),
                       job.training.precision,
                       partition.operators[stage],
                       no_index,
                       {},
                       no_index,
                       {}};
  if (stage > 0) {
    context.input = partition.border[stage - 1];
    context.input_layout = border_layout(model, strategy, stage - 1);
  }
  if (stage + 1 < partition.operators.size()) {
    context.output = partition.border[stage];
    context.output_layout = border_layout(model, strategy, stage);
  }
  return context;
}

}  // namespace

LoweredModel lower_model(const Job& job) {
  LoweredModel model{decoder_graph(job), mesh_of(job), {}, {}};
  select_trained(model.graph, job);
  model.partition = partition(model.graph, job.parallelism.stages);
  const Strategy strategy = strategy_of(job, model);
  const std::vector<std::uint8_t> stream_of_axis = streams_of(model.mesh);
  for (std::size_t stage = 0; stage < model.partition.operators.size(); ++stage) {
    const ChunkContext context = context_of(job, model, strategy, stream_of_axis, stage);
    StageCode lowered;
    lower_forward(context, lowered.code);
    lower_backward(context, lowered.code);
    lowered.split = split_backward(lowered.code);
    model.stages.push_back(std::move(lowered));
  }
  return model;
}

}  // namespace simrun
