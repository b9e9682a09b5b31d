#include "schedules/interleaved_zb.h"

#include <algorithm>

#include "schedules/accepted_sizes.h"
#include "schedules/virtual_microbatches.h"

namespace simrun {
namespace {

// delay: backwards by which W trails its I.
RankOps rank_ops(const PipelineShape& shape, int rank, const std::vector<VirtualMicrobatch>& table,
                 std::size_t delay) {
  const std::int64_t ahead =
      std::int64_t{shape.ranks - 1 - rank} + (std::int64_t{shape.virtual_stages} - 1) * group_size_of(shape);
  const std::size_t warmup = std::min(table.size(), static_cast<std::size_t>(ahead));
  RankOps ops;
  ops.reserve(table.size() * 3);
  std::size_t weights = 0;
  const auto weight = [&] {
    ops.push_back(backward_of(shape, rank, table[weights++], OpKind::backward_weight));
  };
  for (std::size_t k = 0; k < warmup; ++k) ops.push_back(forward_of(shape, rank, table[k]));
  for (std::size_t k = 0; k < table.size(); ++k) {
    if (k + warmup < table.size()) ops.push_back(forward_of(shape, rank, table[k + warmup]));
    ops.push_back(backward_of(shape, rank, table[k], OpKind::backward_input));
    if (k >= delay) weight();
  }
  while (weights < table.size()) weight();
  return ops;
}

std::string interleaved_zb_rule(const PipelineShape& shape) {
  const std::string broken = whole_sequences_rule(shape);
  return broken.empty() ? group_rule(shape) : broken;
}

std::string grouped_rule(const PipelineShape& shape) {
  if (std::string broken = whole_sequences_rule(shape); !broken.empty()) return broken;
  const std::int64_t round_trip = 2 * std::int64_t{shape.group_size} + 1;
  const bool divides = shape.group_size > 0 && shape.microbatches % shape.group_size == 0;
  return divides && round_trip >= shape.ranks ? "" : group_rule(shape);
}

}  // namespace

Schedule interleaved_zb(const PipelineShape& shape) {
  const std::vector<VirtualMicrobatch> table = virtual_microbatches(shape, group_size_of(shape));
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank)
    schedule.push_back(rank_ops(shape, rank, table, static_cast<std::size_t>(rank)));
  return schedule;
}

Schedule grouped_interleaved_1f1b(const PipelineShape& shape) {
  const std::vector<VirtualMicrobatch> table = virtual_microbatches(shape, group_size_of(shape));
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank) schedule.push_back(rank_ops(shape, rank, table, 0));
  return schedule;
}

std::string interleaved_zb_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, interleaved_zb_rule);
}

std::string grouped_interleaved_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, grouped_rule);
}

}  // namespace simrun
