#include "schedules/seq1f1b.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/accepted_sizes.h"

namespace simrun {
namespace {

RankOps rank_ops(const PipelineShape& shape, int rank) {
  const std::int64_t units = std::int64_t{shape.microbatches} * shape.slices;
  const std::int64_t warmup = std::min<std::int64_t>(units, shape.ranks - 2 - rank + shape.slices);
  RankOps ops;
  ops.reserve(static_cast<std::size_t>(units) * 2);
  const auto add = [&](OpKind kind, std::int64_t microbatch, std::int64_t slice) {
    ops.push_back({kind, rank, static_cast<std::int32_t>(microbatch), static_cast<std::int32_t>(slice)});
  };
  for (std::int64_t unit = 0; unit < warmup; ++unit)
    add(OpKind::forward, unit / shape.slices, unit % shape.slices);
  for (std::int64_t unit = 0; unit < units; ++unit) {
    const std::int64_t next = unit + warmup;
    if (next < units) add(OpKind::forward, next / shape.slices, next % shape.slices);
    add(OpKind::backward, unit / shape.slices, shape.slices - 1 - unit % shape.slices);
  }
  return ops;
}

std::string seq1f1b_rule(const PipelineShape& shape) {
  if (shape.slices < 1) return fmt::format("seq1f1b needs at least 1 slice, not {}", shape.slices);
  PipelineShape whole = shape;
  whole.slices = 1;
  return one_stage_rule(whole);
}

}  // namespace

Schedule seq1f1b(const PipelineShape& shape) {
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank) schedule.push_back(rank_ops(shape, rank));
  return schedule;
}

std::string seq1f1b_refusal(const PipelineShape& shape) { return refusal_with_sizes(shape, seq1f1b_rule); }

}  // namespace simrun
