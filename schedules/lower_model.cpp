#include "schedules/lower_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "models/model_graph.h"
#include "models/trained_parameters.h"
#include "schedules/context_parallel.h"
#include "schedules/early_stop.h"
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

// As the reader behind the border lays it out.
Layout read_layout(const LoweredModel& model, const Strategy& strategy, const Crossing& crossing) {
  return input_layout(model.graph, model.graph.operators[crossing.reader], strategy.layouts[crossing.reader],
                      crossing.input);
}

AxisMap without_pairs(AxisMap across) {
  for (std::size_t a = 0; a < across.size(); ++a)
    if (across[a] != a) across[a] = no_axis;
  return across;
}

// The dimension that the layout splits over the axis; null: none.
const DimensionSplit* split_over(const Layout& layout, AxisId axis) {
  for (const DimensionSplit& split : layout.splits)
    if (std::count(split.axes.begin(), split.axes.end(), axis) > 0) return &split;
  return nullptr;
}

// In addition over the axis, in the innermost parts.
void split_further(Layout& layout, const DimensionSplit& as, AxisId axis) {
  const auto place =
      std::lower_bound(layout.splits.begin(), layout.splits.end(), as.dim,
                       [](const DimensionSplit& split, DimensionId dim) { return split.dim < dim; });
  if (place != layout.splits.end() && place->dim == as.dim)
    place->axes.push_back(axis);
  else
    layout.splits.insert(place, {as.dim, {axis}, as.tiling, as.table});
}

// How a tensor crosses, on the mesh before the border; nothing where a pair of unlike axes splits it on
// neither side. As the first operator behind the border reads it, unless it is written in smaller parts: then
// these go over the border, and the ranks behind it gather them from each other (Zheng et al. 2022, section
// 6, "local all-gather"; Narayanan et al. 2021, section 4.1), which their links inside a node do faster.
// Along axes of unlike kinds it is split as on the data-parallel side.
std::optional<Layout> border_layout(const LoweredModel& model, const Strategy& strategy, std::size_t border,
                                    const Crossing& crossing) {
  const DeviceMesh& before = model.mesh(border);
  const auto& [across, back] = model.borders[border];
  const Layout read = read_layout(model, strategy, crossing);
  const Layout written = written_layout(model, strategy, crossing.tensor);
  Layout layout = layout_across(read, without_pairs(back));
  Layout parts = layout_across(written, without_pairs(across));
  if (local_elements(model, crossing.tensor, parts, before) <
      local_elements(model, crossing.tensor, layout, before))
    layout = std::move(parts);
  for (std::size_t a = across.size(); a-- > 0;) {
    if (across[a] == no_axis || across[a] == a) continue;
    const DimensionSplit* const split =
        before.kind[a] == 'd' ? split_over(written, static_cast<AxisId>(a)) : split_over(read, across[a]);
    if (split == nullptr) return std::nullopt;
    split_further(layout, *split, static_cast<AxisId>(a));
  }
  return layout;
}

void meet(LoweredModel& model, const Strategy& strategy) {
  for (std::size_t border = 0; border < model.partition.borders.size(); ++border) {
    const DeviceMesh &before = model.mesh(border), &behind = model.mesh(border + 1);
    model.borders.push_back(border_between(before, behind));
    const std::vector<Crossing>& crossings = model.partition.borders[border];
    if (!std::all_of(crossings.begin(), crossings.end(), [&](const Crossing& crossing) {
          return border_layout(model, strategy, border, crossing).has_value();
        }))
      model.borders.back() = border_of_common_axes(before, behind);
  }
}

// On the mesh before the border.
std::vector<BorderTensor> border_tensors(const LoweredModel& model, const Strategy& strategy,
                                         std::size_t border) {
  std::vector<BorderTensor> tensors;
  for (const Crossing& crossing : model.partition.borders[border])
    tensors.push_back({crossing.tensor, border_layout(model, strategy, border, crossing).value()});
  return tensors;
}

void cut_in_chunks(const Job& job, LoweredModel& model, const Strategy& strategy) {
  for (std::size_t border = 0; border < model.borders.size(); ++border) {
    const DeviceMesh &before = model.mesh(border), &behind = model.mesh(border + 1);
    const MeshBorder& meeting = model.borders[border];
    BorderTransfer forward{border, border + 1, 0, 0, axes_alone(behind, meeting.before_of_behind)};
    BorderTransfer backward{border + 1, border, 0, 0, axes_alone(before, meeting.behind_of_before)};
    for (const BorderTensor& of : border_tensors(model, strategy, border)) {
      const std::int64_t elements = local_elements(model, of.tensor, of.layout, before);
      for (BorderTransfer* transfer : {&forward, &backward})
        transfer->elements = transfer->bytes == 0 ? elements : std::min(transfer->elements, elements);
      forward.bytes += stored_bytes(model.graph.tensors[of.tensor].dtype, elements);
      backward.bytes += stored_bytes(job.training.precision, elements);
    }
    model.border_chunks.push_back(
        {broadcast_chunks(job, behind, forward), broadcast_chunks(job, before, backward)});
  }
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
    const MeshBorder& border = model.borders[stage - 1];
    context.inputs = border_tensors(model, strategy, stage - 1);
    for (BorderTensor& input : context.inputs)
      input.layout = layout_across(std::move(input.layout), border.behind_of_before);
    context.from_before = {axes_alone(model.mesh(stage), border.before_of_behind),
                           model.border_chunks[stage - 1].activations};
  }
  if (stage + 1 < partition.operators.size()) {
    context.outputs = border_tensors(model, strategy, stage);
    context.from_behind = {axes_alone(model.mesh(stage), model.borders[stage].behind_of_before),
                           model.border_chunks[stage].gradients};
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
  meet(model, strategy);
  cut_in_chunks(job, model, strategy);
  const std::vector<std::uint8_t> stream_of_axis = streams_of(model.mesh(0));
  for (std::size_t stage = 0; stage < model.partition.operators.size(); ++stage) {
    const ChunkContext context = context_of(job, model, strategy, stream_of_axis, stage);
    ChunkCode code;
    lower_forward(context, code);
    lower_backward(context, code);
    if (job.framework.kernels.recompute_stops_early) stop_recompute_early(code);
    settle_saved_copies(context, code);
    model.stages.push_back(std::move(code));
  }
  model.tables = strategy.context_parallel.tables();
  model.layouts = strategy.layouts;
  return model;
}

}  // namespace simrun
