#include "schedules/interleaved_1f1b.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

static int group_size(const PipelineShape& shape) {
  return shape.group_size > 0 ? shape.group_size : shape.ranks;
}

// The forward passes of rank 0 in order; stage = chunk x ranks, so that rank r adds r.
static RankOps virtual_microbatches(const PipelineShape& shape) {
  const int group = group_size(shape);
  RankOps table;
  table.reserve(static_cast<std::size_t>(shape.microbatches) *
                static_cast<std::size_t>(shape.virtual_stages));
  for (int first = 0; first < shape.microbatches; first += group) {
    const int last = first + std::min(group, shape.microbatches - first);
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk)
      for (int m = first; m < last; ++m) table.push_back({OpKind::forward, chunk * shape.ranks, m});
    if (last == shape.microbatches) break;  // first + group could overflow for a huge group
  }
  return table;
}

static RankOps rank_ops(int rank, const PipelineShape& shape, const RankOps& table) {
  const std::size_t total = table.size();
  const std::int64_t ahead =
      2 * std::int64_t{shape.ranks - 1 - rank} + (std::int64_t{shape.virtual_stages} - 1) * group_size(shape);
  const std::size_t warmup = std::min(total, static_cast<std::size_t>(ahead));
  const int last_chunk = (shape.virtual_stages - 1) * shape.ranks;
  RankOps ops;
  ops.reserve(total * 2);
  const auto forward = [&](std::size_t k) {
    ops.push_back({OpKind::forward, table[k].stage + rank, table[k].microbatch});
  };
  const auto backward = [&](std::size_t k) {
    ops.push_back({OpKind::backward, last_chunk - table[k].stage + rank, table[k].microbatch});
  };
  for (std::size_t k = 0; k < warmup; ++k) forward(k);
  for (std::size_t k = warmup; k < total; ++k) {
    forward(k);
    backward(k - warmup);
  }
  for (std::size_t k = total - warmup; k < total; ++k) backward(k);
  return ops;
}

Schedule interleaved_1f1b(const PipelineShape& shape) {
  const RankOps table = virtual_microbatches(shape);
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank) schedule.push_back(rank_ops(rank, shape, table));
  return schedule;
}

static bool microbatches_fit(std::int64_t microbatches, std::int64_t ranks, std::int64_t group) {
  return group <= microbatches && (microbatches % group == 0 || microbatches % group >= ranks);
}

// "m" below and above that obey the rule: at most one group away on either side.
static std::string nearest_microbatches(const PipelineShape& shape, std::int64_t group) {
  std::int64_t below = shape.microbatches;
  while (below >= group && !microbatches_fit(below, shape.ranks, group)) --below;
  std::int64_t above = std::max<std::int64_t>(shape.microbatches, group);
  while (!microbatches_fit(above, shape.ranks, group)) ++above;
  if (below < group) return fmt::format("{} microbatches would do", above);
  return fmt::format("{} and {} microbatches would do", below, above);
}

std::string interleaved_refusal(const PipelineShape& shape) {
  if (shape.virtual_stages < 2)
    return fmt::format("interleaved_1f1b needs at least 2 virtual stages per rank, not {}; 1f1b runs 1",
                       shape.virtual_stages);
  const int group = group_size(shape);
  if (group < shape.ranks)
    return fmt::format(
        "interleaved_1f1b needs a microbatch group of at least the {} pipeline ranks, not {}; {} is the "
        "default",
        shape.ranks, group, shape.ranks);
  if (group > shape.microbatches)
    return fmt::format(
        "interleaved_1f1b with groups of {} microbatches needs at least {} of them, not {}; {}", group, group,
        shape.microbatches, nearest_microbatches(shape, group));
  if (!microbatches_fit(shape.microbatches, shape.ranks, group))
    return fmt::format(
        "{} microbatches in groups of {} leave a last group of {}, which must be empty or at least the {} "
        "pipeline "
        "ranks; {}",
        shape.microbatches, group, shape.microbatches % group, shape.ranks,
        nearest_microbatches(shape, group));
  return "";
}

}  // namespace simrun
