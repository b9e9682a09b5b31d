#include "backend/microbatch_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "schedules/context_parallel.h"
#include "schedules/lower_model.h"

namespace simrun {
namespace {

// Along which dimensions it matters what else a rank has.
struct CountedDims {
  std::optional<DimensionId> batch = {}, sequence = {};
};
std::optional<CountedDims> counted_dims(const Job& job, const Graph& graph, const Operator& op) {
  if (op.function == Function::batch_norm) return CountedDims{graph.tensors[op.outputs.front()].dims[0]};
  if (op.opcode == Opcode::route && job.model.experts.balance_loss > 0) {
    const std::vector<DimensionId>& dims = graph.tensors[op.outputs.front()].dims;
    if (job.model.experts.balance_by_sequence) return CountedDims{.sequence = dims[1]};
    return CountedDims{dims[0], dims[1]};
  }
  const bool takes_tokens = op.function == Function::dispatch && op.regroup && op.regroup->from.size() == 2;
  if (takes_tokens && job.moe.capacity_factor > 0)
    return CountedDims{op.regroup->from[0], op.regroup->from[1]};
  return std::nullopt;
}

const DimensionSplit* split_of(const Layout& layout, const std::optional<DimensionId>& dim) {
  return dim ? layout.split_of(*dim) : nullptr;
}

std::int64_t ranks_of(const DimensionSplit* split, const DeviceMesh& mesh) {
  return split == nullptr ? 1 : mesh.size(split->axes);
}

// Whether the split is over what context parallelism deals out in zigzag blocks.
bool is_zigzag(const Job& job, const DimensionSplit* split, const DeviceMesh& mesh) {
  if (split == nullptr || job.parallelism.context_parallel_layout != ContextLayout::zigzag) return false;
  const std::vector<AxisId> dealt = ContextParallelism(job, mesh).axes();
  return !dealt.empty() && dealt.size() <= split->axes.size() &&
         std::equal(dealt.begin(), dealt.end(), split->axes.begin());
}

std::string name_of(const Operator& op) {
  return op.layer < 0 ? op.name : fmt::format("{} of layer {}", op.name, op.layer);
}

// Adds up what operators say, each of which must say the same.
class CommonParts {
 public:
  explicit CommonParts(const Job& job) : job_(job) {}

  void add(const Operator& op, const CountedDims& dims, const Layout& layout, const DeviceMesh& mesh) {
    const DimensionSplit* sequence = split_of(layout, dims.sequence);
    if (dims.batch) settle(parts_.batch, ranks_of(split_of(layout, dims.batch), mesh), op, "samples");
    if (!dims.sequence) return;
    const std::int64_t ranks = ranks_of(sequence, mesh);
    // Two blocks are another part than one.
    const bool is_dealt = is_zigzag(job_, sequence, mesh);
    settle(parts_.sequence, ranks, op, "parts of a sequence");
    settle(zigzag_, is_dealt ? 1 : 0, op, "blocks of a sequence");
    parts_.is_zigzag = is_dealt;
  }

  std::optional<MicrobatchParts> take() const {
    return parts_.batch || parts_.sequence ? std::optional(parts_) : std::nullopt;
  }

 private:
  void settle(std::optional<std::int64_t>& known, std::int64_t parts, const Operator& op, const char* what) {
    if (!known) {
      known = parts;
      first_[what] = name_of(op);
    }
    if (*known == parts) return;
    throw std::invalid_argument(
        fmt::format("the layout section gives {} other {} than {}, and what they compute depends on it: no "
                    "single rank computes the same",
                    name_of(op), what, first_[what]));
  }

  const Job& job_;
  MicrobatchParts parts_;
  std::optional<std::int64_t> zigzag_;
  std::map<std::string, std::string> first_;  // who said it, by what
};

}  // namespace

std::optional<MicrobatchParts> microbatch_parts(const Job& job) {
  if (job.layout == LayoutConfig{}) return std::nullopt;
  const LoweredModel model = lower_model(job);
  CommonParts common(job);
  for (std::size_t stage = 0; stage < model.partition.operators.size(); ++stage)
    for (const std::size_t o : model.partition.operators[stage]) {
      const Operator& op = model.graph.operators[o];
      if (const std::optional<CountedDims> dims = counted_dims(job, model.graph, op))
        common.add(op, *dims, model.layouts[o], model.mesh(stage));
    }
  return common.take();
}

}  // namespace simrun
