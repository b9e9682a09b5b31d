#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/plan.h"

// Which part of a whole tensor a rank has. Everything that a rank needs to know of the others follows from
// parts: what a collective moves is where one rank's part meets another's.
namespace simrun {

// Indices [first, first + extent) of a dimension of `whole` indices, padding included.
struct DimPart {
  std::int64_t first = 0, extent = 1, whole = 1;
  bool operator==(const DimPart&) const = default;
};
using TensorPart = std::vector<DimPart>;  // by dimension of the buffer

std::int64_t elements(const TensorPart& part);

// What two parts of one tensor have in common; nothing where they do not meet.
std::optional<TensorPart> common_part(const TensorPart& a, const TensorPart& b);

// A rank of a plan: place `local` in the device list of a pipeline rank. Ranks are numbered by pipeline rank,
// then local place.
struct RankPlace {
  std::int32_t pipeline_rank = 0;
  std::int64_t local = 0;
  std::int64_t rank = 0;
};
std::vector<RankPlace> ranks_of(const Plan& plan);

// The rank's part of a buffer in a microbatch: along each dimension its place among the axes that split it,
// the first outermost. The pieces of a gradient or weight bucket that both copies of a stage divide further
// (bidirectional schedules with ZeRO-1) have no part here: such plans are refused (backend/execute.h).
TensorPart part_of(const Plan& plan, const Buffer& buffer, const RankPlace& place, std::int32_t microbatch);

// Where a view begins in its parent, in elements: at its offset, and a view of a flat bucket that is split
// over ranks at the rank's own place.
std::int64_t view_begin(const Plan& plan, const Buffer& view, const RankPlace& place);

// Place of a rank among those that differ from it in these axes only, the first outermost, and their number.
struct AxesPlace {
  std::int64_t index = 0, count = 1;
};
AxesPlace place_along(const Mesh& mesh, const std::vector<std::uint8_t>& axes, std::int64_t local);

}  // namespace simrun
