#include "schedules/virtual_microbatches.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

static int torch_rounds(const PipelineShape& shape) { return std::max(1, shape.microbatches / shape.ranks); }

static bool last_group_fits(const PipelineShape& shape, int group) {
  const int rest = shape.microbatches % group;
  return rest == 0 || rest >= shape.ranks;
}

// REQUIRES: at least as many microbatches as ranks.
static int least_group(const PipelineShape& shape) {
  int group = shape.ranks;
  while (!last_group_fits(shape, group)) ++group;  // at the latest all microbatches in one
  return group;
}

std::vector<VirtualMicrobatch> virtual_microbatches(const PipelineShape& shape, int group) {
  std::vector<VirtualMicrobatch> table;
  table.reserve(static_cast<std::size_t>(shape.microbatches) *
                static_cast<std::size_t>(shape.virtual_stages));
  for (int first = 0; first < shape.microbatches;) {
    const int last = first + std::min(group, shape.microbatches - first);
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk)
      for (int m = first; m < last; ++m) table.push_back({chunk, m});
    first = last;
  }
  return table;
}

Op forward_of(const PipelineShape& shape, int rank, VirtualMicrobatch pass) {
  return {OpKind::forward, pass.chunk * shape.ranks + rank, pass.microbatch};
}

Op backward_of(const PipelineShape& shape, int rank, VirtualMicrobatch pass, OpKind kind) {
  return {kind, (shape.virtual_stages - 1 - pass.chunk) * shape.ranks + rank, pass.microbatch};
}

int group_size_of(const PipelineShape& shape) {
  return shape.group_size > 0 ? shape.group_size : shape.microbatches / torch_rounds(shape);
}

std::string megatron_group_rule(const PipelineShape& shape) {
  const int group = group_size_of(shape);
  const int m = shape.microbatches;
  if (shape.group_size == 0 && m < shape.ranks)
    return fmt::format("groups of at least the {} pipeline ranks need as many microbatches, not {}",
                       shape.ranks, m);
  if (group < shape.ranks)
    return fmt::format("a group must hold at least the {} pipeline ranks, not {}", shape.ranks, group);
  if (group > m)
    return fmt::format("groups of {} microbatches need at least {} of them, not {}", group, group, m);
  if (!last_group_fits(shape, group))
    return fmt::format(
        "{} microbatches in groups of {} leave a last group of {}, which must be empty or at least the {} "
        "pipeline ranks",
        m, group, m % group, shape.ranks);
  return "";
}

std::string group_rule(const PipelineShape& shape) {
  const int rounds = torch_rounds(shape);
  const bool divides = shape.microbatches % rounds == 0;
  if (shape.group_size == 0 && !divides)
    return fmt::format(
        "{} microbatches on {} ranks do not split into {} / {} = {} equal rounds (a group size of {} takes "
        "them)",
        shape.microbatches, shape.ranks, shape.microbatches, shape.ranks, rounds, least_group(shape));
  if (shape.group_size == 0 || (divides && shape.group_size == shape.microbatches / rounds)) return "";
  return megatron_group_rule(shape);
}

}  // namespace simrun
