#include "schedules/interleaved_1f1b.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/accepted_sizes.h"
#include "schedules/virtual_microbatches.h"

namespace simrun {
namespace {

// Forwards before the first backward: 2 per hop to the last rank, and all chunks but the last of a group.
std::size_t warmup_of(const PipelineShape& shape, int rank) {
  return static_cast<std::size_t>(2 * std::int64_t{shape.ranks - 1 - rank} +
                                  (std::int64_t{shape.virtual_stages} - 1) * group_size_of(shape));
}

RankOps rank_ops(const PipelineShape& shape, int rank, const std::vector<VirtualMicrobatch>& table,
                 std::size_t warmup) {
  warmup = std::min(warmup, table.size());
  RankOps ops;
  ops.reserve(table.size() * 2);
  for (std::size_t k = 0; k < warmup; ++k) ops.push_back(forward_of(shape, rank, table[k]));
  for (std::size_t k = 0; k < table.size(); ++k) {
    if (k + warmup < table.size()) ops.push_back(forward_of(shape, rank, table[k + warmup]));
    ops.push_back(backward_of(shape, rank, table[k], OpKind::backward));
  }
  return ops;
}

std::string several_stages_rule(const PipelineShape& shape, const char* schedule) {
  if (std::string broken = whole_sequences_rule(shape); !broken.empty()) return broken;
  if (shape.virtual_stages >= 2) return "";
  return fmt::format("{} needs at least 2 virtual stages per rank, not {} (1f1b runs 1)", schedule,
                     shape.virtual_stages);
}

std::string interleaved_rule(const PipelineShape& shape) {
  const std::string broken = several_stages_rule(shape, "interleaved_1f1b");
  return broken.empty() ? group_rule(shape) : broken;
}

std::string overlap_rule(const PipelineShape& shape) {
  const bool is_pipeline = shape.ranks > 1;
  std::string broken =
      is_pipeline ? several_stages_rule(shape, "interleaved_1f1b_overlap") : whole_sequences_rule(shape);
  if (broken.empty()) broken = group_rule(shape);
  return broken.empty() ? megatron_group_rule(shape) : broken;
}

}  // namespace

Schedule interleaved_1f1b(const PipelineShape& shape) {
  const std::vector<VirtualMicrobatch> table = virtual_microbatches(shape, group_size_of(shape));
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank)
    schedule.push_back(rank_ops(shape, rank, table, warmup_of(shape, rank)));
  return schedule;
}

Schedule interleaved_1f1b_overlap(const PipelineShape& shape) {
  const std::vector<VirtualMicrobatch> table = virtual_microbatches(shape, group_size_of(shape));
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const std::size_t warmup = warmup_of(shape, rank) + 1;
    RankOps ops = rank_ops(shape, rank, table, warmup);
    // Behind the warm-up, forwards stand before every other op until the last of them.
    for (std::size_t i = warmup; i < ops.size() && ops[i].kind == OpKind::forward; i += 2)
      ops[i].overlaps_next = true;
    schedule.push_back(std::move(ops));
  }
  return schedule;
}

std::string interleaved_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, interleaved_rule);
}

std::string interleaved_overlap_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, overlap_rule);
}

}  // namespace simrun
