#include "tests/schedules/index_sets.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace simrun {
namespace {

using Indices = std::vector<std::int64_t>;
using Members = std::vector<const HeldPiece*>;

// Where the layouts differ: the dimension whose list of axes became longer, and the one whose became shorter.
struct MovedSets {
  int cut = -1, joined = -1;
  int count = 0;  // of dimensions that changed
};

MovedSets moved(const Layout& before, const Layout& after, const std::vector<DimensionId>& dims) {
  MovedSets result;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const DimensionSplit* was = before.split_of(dims[d]);
    const DimensionSplit* is = after.split_of(dims[d]);
    const std::size_t old = was == nullptr ? 0 : was->axes.size();
    const std::size_t now = is == nullptr ? 0 : is->axes.size();
    if (now > old) result.cut = static_cast<int>(d);
    if (now < old) result.joined = static_cast<int>(d);
    if (now != old) ++result.count;
  }
  return result;
}

Indices part(const Indices& whole, std::size_t number, std::size_t of) {
  const std::size_t size = whole.size() / of;
  const auto first = whole.begin() + static_cast<std::ptrdiff_t>(number * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

std::string cut(HeldPiece& piece, int dim, std::size_t number, std::size_t of) {
  if (dim < 0) return "nothing to cut";
  Indices& indices = piece.indices[static_cast<std::size_t>(dim)];
  if (indices.size() % of != 0) return "does not divide";
  indices = part(indices, number, of);
  return "";
}

// All members hold the same indices of all dimensions but one (-1: of all).
bool agree(const Members& members, int but) {
  for (const HeldPiece* member : members)
    for (std::size_t d = 0; d < member->indices.size(); ++d)
      if (std::cmp_not_equal(d, but) && member->indices[d] != members.front()->indices[d]) return false;
  return true;
}

bool agree_on_summands(const Members& members) {
  return std::all_of(members.begin(), members.end(),
                     [&](const HeldPiece* m) { return m->summands == members.front()->summands; });
}

std::string join(HeldPiece& piece, int dim, const Members& members) {
  if (dim < 0) return "nothing to join";
  if (!agree(members, dim)) return "joins pieces of different places";
  if (!agree_on_summands(members)) return "joins different summands";
  Indices joined;
  for (const HeldPiece* member : members) {
    const Indices& theirs = member->indices[static_cast<std::size_t>(dim)];
    joined.insert(joined.end(), theirs.begin(), theirs.end());
  }
  piece.indices[static_cast<std::size_t>(dim)] = std::move(joined);
  return "";
}

std::string add_up(HeldPiece& piece, const Members& members) {
  if (!agree(members, -1)) return "sums elements of different places";
  piece.summands.clear();
  for (const HeldPiece* member : members)
    for (const std::vector<std::int64_t>& summand : member->summands)
      if (!piece.summands.insert(summand).second) return "counts a summand twice";
  return "";
}

}  // namespace

std::int64_t IndexSets::ranks() const {
  std::int64_t product = 1;
  for (const std::int64_t size : axis_sizes_) product *= size;
  return product;
}

std::int64_t IndexSets::coordinate(std::int64_t rank, AxisId axis) const {
  for (AxisId a = 0; a < axis; ++a) rank /= axis_sizes_[a];
  return rank % axis_sizes_[axis];
}

std::set<std::vector<std::int64_t>> IndexSets::summands(std::int64_t rank, const std::vector<AxisId>& axes,
                                                        const std::vector<AxisId>& summed) const {
  std::set<std::vector<std::int64_t>> names{{}};
  for (const AxisId axis : axes) {
    const bool is_done = std::find(summed.begin(), summed.end(), axis) != summed.end();
    std::set<std::vector<std::int64_t>> longer;
    for (std::vector<std::int64_t> name : names) {
      name.push_back(coordinate(rank, axis));
      for (std::int64_t c = 0; c < axis_sizes_[axis]; ++c) {
        if (is_done) name.back() = c;
        longer.insert(name);
      }
    }
    names = std::move(longer);
  }
  return names;
}

IndexedTensor IndexSets::held(const Layout& layout, std::vector<DimensionId> dims,
                              const std::vector<AxisId>& summed) const {
  std::vector<AxisId> summand_axes = layout.partial_sum;
  summand_axes.insert(summand_axes.end(), layout.partial_max.begin(), layout.partial_max.end());
  summand_axes.insert(summand_axes.end(), summed.begin(), summed.end());
  std::sort(summand_axes.begin(), summand_axes.end());
  IndexedTensor tensor{std::move(dims), {}};
  for (std::int64_t rank = 0; rank < ranks(); ++rank) {
    HeldPiece piece;
    for (const DimensionId dim : tensor.dims) {
      std::int64_t block = 0, blocks = 1;
      if (const DimensionSplit* split = layout.split_of(dim))
        for (const AxisId axis : split->axes) {
          block = block * axis_sizes_[axis] + coordinate(rank, axis);
          blocks *= axis_sizes_[axis];
        }
      const std::int64_t size = extents_[dim] / blocks;
      Indices indices;
      for (std::int64_t i = 0; i < size; ++i) indices.push_back(block * size + i);
      piece.indices.push_back(std::move(indices));
    }
    piece.summands = summands(rank, summand_axes, summed);
    tensor.pieces.push_back(std::move(piece));
  }
  return tensor;
}

std::vector<std::int64_t> IndexSets::members(std::int64_t rank, const std::vector<AxisId>& axes) const {
  std::vector<std::int64_t> strides;
  for (const AxisId axis : axes) {
    std::int64_t stride = 1;
    for (AxisId a = 0; a < axis; ++a) stride *= axis_sizes_[a];
    strides.push_back(stride);
    rank -= coordinate(rank, axis) * stride;
  }
  std::vector<std::int64_t> group{rank};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    std::vector<std::int64_t> wider;
    for (const std::int64_t member : group)
      for (std::int64_t c = 0; c < axis_sizes_[axes[a]]; ++c) wider.push_back(member + c * strides[a]);
    group = std::move(wider);
  }
  return group;
}

std::string IndexSets::apply(const Conversion& conversion, const Layout& before,
                             IndexedTensor& tensor) const {
  const MovedSets change = moved(before, conversion.result, tensor.dims);
  const int expected = conversion.opcode == Opcode::all_reduce   ? 0
                       : conversion.opcode == Opcode::all_to_all ? 2
                                                                 : 1;
  if (change.count != expected) return "changes other dimensions than its opcode can";
  IndexedTensor after = tensor;
  for (std::int64_t rank = 0; rank < ranks(); ++rank) {
    const std::vector<std::int64_t> group = members(rank, conversion.axes);
    const auto own = static_cast<std::size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
    Members pieces;
    for (const std::int64_t member : group)
      pieces.push_back(&tensor.pieces[static_cast<std::size_t>(member)]);
    HeldPiece& piece = after.pieces[static_cast<std::size_t>(rank)];
    std::string fault;
    switch (conversion.opcode) {
      case Opcode::copy: fault = cut(piece, change.cut, own, group.size()); break;
      case Opcode::all_gather: fault = join(piece, change.joined, pieces); break;
      case Opcode::all_reduce: fault = add_up(piece, pieces); break;
      case Opcode::reduce_scatter:
        fault = add_up(piece, pieces);
        if (fault.empty()) fault = cut(piece, change.cut, own, group.size());
        break;
      case Opcode::all_to_all:
        fault = join(piece, change.joined, pieces);
        if (fault.empty()) fault = cut(piece, change.cut, own, group.size());
        break;
      default: fault = "is no collective";
    }
    if (!fault.empty()) return fault;
  }
  tensor = std::move(after);
  return "";
}

}  // namespace simrun
