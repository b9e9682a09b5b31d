#include "schedules/hanayo.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/accepted_sizes.h"

namespace simrun {
namespace {

RankOps rank_ops(const PipelineShape& shape, int rank) {
  const int microbatches = shape.microbatches;
  const int waves = shape.virtual_stages / 2;
  const int passes = waves * microbatches;  // of the even chunks, and of the odd ones
  RankOps ops;
  ops.reserve(static_cast<std::size_t>(passes) * 4);
  const auto add = [&](OpKind kind, int chunk, int microbatch) {
    ops.push_back({kind, stage_of(Placement::wave, shape.ranks, rank, chunk), microbatch});
  };
  int there = 0;  // forwards of even chunks
  const auto forward_there = [&] {
    add(OpKind::forward, 2 * (there / microbatches), there % microbatches);
    ++there;
  };
  int back = 0;  // backwards of odd chunks, from the last chunk
  const auto backward_back = [&] {
    add(OpKind::backward, 2 * waves - 1 - 2 * (back / microbatches), back % microbatches);
    ++back;
  };
  while (there < std::min(shape.ranks - rank, microbatches)) forward_there();
  for (int i = 0; i < passes; ++i) {
    add(OpKind::forward, 2 * (i / microbatches) + 1, i % microbatches);
    if (there < passes)
      forward_there();
    else
      backward_back();
  }
  for (int i = 0; i < passes; ++i) {
    add(OpKind::backward, 2 * (waves - 1 - i / microbatches), i % microbatches);
    if (back < passes) backward_back();
  }
  return ops;
}

std::string hanayo_rule(const PipelineShape& shape) {
  if (std::string broken = whole_sequences_rule(shape); !broken.empty()) return broken;
  if (shape.virtual_stages % 2 != 0)
    return fmt::format("a wave there and back takes 2 virtual stages per rank, and {} is not even",
                       shape.virtual_stages);
  if (shape.microbatches < shape.ranks)
    return fmt::format("a wave fills {} ranks with as many microbatches or more, not {}", shape.ranks,
                       shape.microbatches);
  return "";
}

}  // namespace

Schedule hanayo(const PipelineShape& shape) {
  Schedule schedule;
  for (int rank = 0; rank < shape.ranks; ++rank) schedule.push_back(rank_ops(shape, rank));
  return schedule;
}

std::string hanayo_refusal(const PipelineShape& shape) { return refusal_with_sizes(shape, hanayo_rule); }

}  // namespace simrun
