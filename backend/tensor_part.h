#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/plan.h"

// Which part of a whole tensor a rank has. Everything that a rank needs to know of the others follows from
// parts: what a collective moves is where one rank's part meets another's.
namespace simrun {

// The indices of a dimension of `whole` indices, padding included, that a rank has, ascending: at(0) ..
// at(extent - 1). They are one run, [first, first + extent), or two: `near` indices from `first` on, and,
// `gap` indices behind them, the rest (a rank of context parallelism has the blocks r and 2n-1-r of a
// sequence). Of one run near = gap = 0.
struct DimPart {
  std::int64_t first = 0, extent = 1, whole = 1;
  std::int64_t near = 0, gap = 0;
  std::int64_t at(std::int64_t local) const { return first + local + (local < near ? 0 : gap); }
  bool operator==(const DimPart&) const = default;
};
using TensorPart = std::vector<DimPart>;  // by dimension of the buffer

std::int64_t elements(const TensorPart& part);

// Neighbouring indices of a part: whole indices [first, first + count).
struct IndexRun {
  std::int64_t first = 0, count = 0;
};
std::vector<IndexRun> runs_of(const DimPart& part);  // one or two, ascending

// Where a part has an index of the whole. REQUIRES: it has it.
inline std::int64_t local_of(const DimPart& part, std::int64_t index) {
  return index - part.first - (index < part.first + part.near ? 0 : part.gap);
}

// What rank `index` of `count` has of a dimension: the contiguous block of that number, or of 2 x count
// blocks those of the numbers index and 2 count - 1 - index. REQUIRES: the blocks divide `whole`.
DimPart contiguous_part(std::int64_t whole, std::int64_t index, std::int64_t count);
DimPart zigzag_part(std::int64_t whole, std::int64_t index, std::int64_t count);

// Which keys a rank's queries meet in a step of ring attention: those of the rank `key_offset` before it.
// REQUIRES: the queries are a whole part of the sequence over part.axes.
DimPart keys_in_ring(const SequencePart& part, const DimPart& queries);

// Local indices [begin, begin + count) of a part.
DimPart slice_of(const DimPart& part, std::int64_t begin, std::int64_t count);

// What two parts of one tensor have in common; nothing where they do not meet. Throws std::logic_error where
// that is more than two runs of a dimension: no two layouts of a plan meet so.
std::optional<TensorPart> common_part(const TensorPart& a, const TensorPart& b);

// Whether every element of `part` is among those of `of`.
bool is_within(const TensorPart& part, const TensorPart& of);

// The elements of `part` in memory that holds `held`, run by run: calls visit(first element in the memory,
// first in the part packed in row-major order, count). REQUIRES: is_within(part, held).
template <class Visit>
void for_each_run(const TensorPart& held, const TensorPart& part, Visit visit) {
  if (part.empty()) return visit(std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
  const std::vector<IndexRun> runs = runs_of(part.back());
  const std::int64_t width = part.back().extent, rows = width == 0 ? 0 : elements(part) / width;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row, stride = held.back().extent, first = 0, packed = row * width;
    for (std::size_t d = part.size() - 1; d-- > 0;) {
      first += local_of(held[d], part[d].at(rest % part[d].extent)) * stride;
      rest /= part[d].extent;
      stride *= held[d].extent;
    }
    for (const IndexRun& run : runs) {
      visit(first + local_of(held.back(), run.first), packed, run.count);
      packed += run.count;
    }
  }
}

// A rank of a plan: place `local` in the device list of a pipeline rank. Ranks are numbered by pipeline rank,
// then local place.
struct RankPlace {
  std::int32_t pipeline_rank = 0;
  std::int64_t local = 0;
  std::int64_t rank = 0;
};
std::vector<RankPlace> ranks_of(const Plan& plan);

// The rank's part of a buffer in a microbatch: along each dimension its place among the axes that split it,
// the first outermost; over axes marked `:zigzag` (Buffer::split) two blocks of the dimension. The pieces
// of a bucket that both copies of a stage share (bidirectional schedules with ZeRO-1) lie over their pipeline
// ranks first. REQUIRES: the rank holds a part.
TensorPart part_of(const Plan& plan, const Buffer& buffer, const RankPlace& place, std::int32_t microbatch);

// How many ranks of its pipeline rank have the same part of a buffer.
std::int64_t copies_of_part(const Plan& plan, const Buffer& buffer, const RankPlace& place);

// Where a view begins in its parent, in elements: at its offset, and a view of a flat bucket that is split
// over ranks at the rank's own place.
std::int64_t view_begin(const Plan& plan, const Buffer& view, const RankPlace& place);

// Place of a rank among those that differ from it in these axes only, the first outermost, and their number.
struct AxesPlace {
  std::int64_t index = 0, count = 1;
};
AxesPlace place_along(const Mesh& mesh, const std::vector<std::uint8_t>& axes, std::int64_t local);
// The local place with other coordinates along some axes: number `index` of those that `axes` make.
std::int64_t moved_along(const Mesh& mesh, const std::vector<std::uint8_t>& axes, std::int64_t local,
                         std::int64_t index);

}  // namespace simrun
