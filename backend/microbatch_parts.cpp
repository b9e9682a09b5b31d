#include "backend/microbatch_parts.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "schedules/context_parallel.h"
#include "schedules/lower_model.h"

namespace simrun {
namespace {

// What an operator depends on: samples, and elements of sequences.
struct CountedDims {
  DimensionId batch = 0;
  std::optional<DimensionId> sequence = {};
};
std::optional<CountedDims> counted_dims(const Job& job, const Graph& graph, const Operator& op) {
  if (op.function == Function::batch_norm) return CountedDims{graph.tensors[op.outputs.front()].dims[0]};
  if (op.opcode == Opcode::route && job.model.experts.balance_loss > 0) {
    const std::vector<DimensionId>& dims = graph.tensors[op.outputs.front()].dims;
    return CountedDims{dims[0], dims[1]};
  }
  const bool takes_tokens = op.function == Function::dispatch && op.regroup && op.regroup->from.size() == 2;
  if (takes_tokens && job.moe.capacity_factor > 0)
    return CountedDims{op.regroup->from[0], op.regroup->from[1]};
  return std::nullopt;
}

std::int64_t parts_of(const DimensionSplit* split, const DeviceMesh& mesh) {
  return split == nullptr ? 1 : mesh.size(split->axes);
}

// Whether the split is over what context parallelism deals out in zigzag blocks.
bool is_zigzag(const Job& job, const DimensionSplit* split, const DeviceMesh& mesh) {
  if (split == nullptr || job.parallelism.context_parallel_layout != ContextLayout::zigzag) return false;
  const std::vector<AxisId> dealt = ContextParallelism(job, mesh).axes();
  return !dealt.empty() && dealt.size() <= split->axes.size() &&
         std::equal(dealt.begin(), dealt.end(), split->axes.begin());
}

MicrobatchParts parts_of(const Job& job, const CountedDims& dims, const Layout& layout,
                         const DeviceMesh& mesh) {
  const DimensionSplit* sequence = dims.sequence ? layout.split_of(*dims.sequence) : nullptr;
  return {.batch = parts_of(layout.split_of(dims.batch), mesh),
          .sequence = parts_of(sequence, mesh),
          .is_zigzag = is_zigzag(job, sequence, mesh)};
}

}  // namespace

std::optional<MicrobatchParts> microbatch_parts(const Job& job) {
  if (job.layout == LayoutConfig{}) return std::nullopt;
  const LoweredModel model = lower_model(job);
  std::optional<MicrobatchParts> all;
  for (std::size_t stage = 0; stage < model.partition.operators.size(); ++stage)
    for (const std::size_t o : model.partition.operators[stage]) {
      const Operator& op = model.graph.operators[o];
      const std::optional<CountedDims> dims = counted_dims(job, model.graph, op);
      if (!dims) continue;
      const MicrobatchParts parts = parts_of(job, *dims, model.layouts[o], model.mesh(stage));
      if (all && *all != parts)
        throw std::invalid_argument(
            "the layout section gives layers unlike parts of a microbatch, and what '" + op.name +
            "' computes depends on that: no single rank computes the same");
      all = parts;
    }
  return all;
}

}  // namespace simrun
