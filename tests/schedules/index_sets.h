#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "schedules/layout.h"

// What every rank really holds, index by index, and what each collective does with it: a slow second opinion
// on layouts and conversions that shares no code with them.
namespace simrun {

// A rank's piece of one tensor: along each dimension the global indices in storage order; and which summands
// of every element it has added up so far (a summand is named by the coordinates of the ranks that wrote it).
struct HeldPiece {
  std::vector<std::vector<std::int64_t>> indices;
  std::set<std::vector<std::int64_t>> summands;
  bool operator==(const HeldPiece&) const = default;
};

// A tensor spread over all ranks of a mesh, and over which dimensions (as layouts name them).
struct IndexedTensor {
  std::vector<DimensionId> dims;
  std::vector<HeldPiece> pieces;  // by rank
  bool operator==(const IndexedTensor&) const = default;
};

class IndexSets {
 public:
  // `extents` by DimensionId. The first axis of the mesh varies fastest over the ranks.
  IndexSets(std::vector<std::int64_t> axis_sizes, std::vector<std::int64_t> extents)
      : axis_sizes_(std::move(axis_sizes)), extents_(std::move(extents)) {}

  std::int64_t ranks() const;
  std::int64_t coordinate(std::int64_t rank, AxisId axis) const;
  // What the words of `layout` mean: block number = the coordinates along its axes, first axis most
  // significant; over a partial axis every rank has the summand of its own coordinate; over an axis in
  // `summed` (ascending) the sum is done.
  IndexedTensor held(const Layout& layout, std::vector<DimensionId> dims,
                     const std::vector<AxisId>& summed = {}) const;
  // The tensor after a collective that NCCL would run on whole buffers: members in the order of the axes, one
  // dimension cut or joined in that order. `before` and the conversion's result say which dimension. Returns
  // what went wrong, or "".
  std::string apply(const Conversion& conversion, const Layout& before, IndexedTensor& tensor) const;

 private:
  // Names of the summands that a rank has: of all coordinates of the axes that are summed, of its own along
  // the others.
  std::set<std::vector<std::int64_t>> summands(std::int64_t rank, const std::vector<AxisId>& axes,
                                               const std::vector<AxisId>& summed) const;
  std::vector<std::int64_t> members(std::int64_t rank, const std::vector<AxisId>& axes) const;

  std::vector<std::int64_t> axis_sizes_;
  std::vector<std::int64_t> extents_;
};

}  // namespace simrun
