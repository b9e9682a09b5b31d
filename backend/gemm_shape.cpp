#include "backend/gemm_shape.h"

#include <algorithm>
#include <utility>

namespace simrun {
namespace {

using Names = std::vector<std::uint16_t>;

bool has(const Names& names, std::uint16_t name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Names names_of(const Argument& argument) {
  Names names;
  for (const BufferDim& dim : argument.buffer->dims) names.push_back(dim.name);
  return names;
}

Names joined(const Names& a, const Names& b, const Names& c) {
  Names names = a;
  names.insert(names.end(), b.begin(), b.end());
  names.insert(names.end(), c.begin(), c.end());
  return names;
}

std::int64_t extent_of(const Argument& argument, const Names& group) {
  std::int64_t product = 1;
  for (std::size_t d = 0; d < argument.part.size(); ++d)
    if (has(group, argument.buffer->dims[d].name)) product *= argument.part[d].extent;
  return product;
}

ReorderedDims reordered(const Argument& argument, const Names& order) {
  const Names names = names_of(argument);
  ReorderedDims result;
  for (const std::uint16_t name : order) {
    std::int64_t stride = 1;
    std::size_t d = names.size();
    while (names[--d] != name) stride *= argument.part[d].extent;
    result.extents.push_back(argument.part[d].extent);
    result.strides.push_back(stride);
  }
  return result;
}

struct Groups {
  Names batch, rows, columns;
};

GemmFactor factor(const Argument& argument, const Groups& groups) {
  const Names names = names_of(argument);
  GemmFactor result;
  if (names == joined(groups.batch, groups.rows, groups.columns)) return result;
  result.transposed = names == joined(groups.batch, groups.columns, groups.rows);
  if (result.transposed) return result;
  result.as_stored = false;
  result.order = reordered(argument, joined(groups.batch, groups.rows, groups.columns));
  return result;
}

}  // namespace

MatrixProduct gemm_shape(const Argument& first, const Argument& second, const Argument& d) {
  const Argument *a = &first, *b = &second;
  const Names of_d = names_of(d), of_first = names_of(first), of_second = names_of(second);
  Groups groups;  // batch, m, n in D's order
  for (const std::uint16_t name : of_d)
    (has(of_first, name) && has(of_second, name) ? groups.batch
     : has(of_first, name)                       ? groups.rows
                                                 : groups.columns)
        .push_back(name);
  MatrixProduct shape;
  // D as [batch, n, m] is the product the other way round.
  shape.swapped = of_d != joined(groups.batch, groups.rows, groups.columns) &&
                  of_d == joined(groups.batch, groups.columns, groups.rows);
  if (shape.swapped) {
    std::swap(a, b);
    std::swap(groups.rows, groups.columns);
  }
  Names summed;
  for (const std::uint16_t name : names_of(*a))
    if (has(names_of(*b), name) && !has(of_d, name)) summed.push_back(name);
  shape.batch = extent_of(d, groups.batch);
  shape.m = extent_of(*a, groups.rows);
  shape.n = extent_of(*b, groups.columns);
  shape.k = extent_of(*a, summed);
  for (std::size_t at = 0; at < a->part.size(); ++at)
    if (has(summed, a->buffer->dims[at].name) && a->part[at].first > 0) shape.begins_sum = false;
  shape.a = factor(*a, {groups.batch, groups.rows, summed});
  shape.b = factor(*b, {groups.batch, summed, groups.columns});
  const Names order = joined(groups.batch, groups.rows, groups.columns);
  shape.d_as_stored = of_d == order;
  if (!shape.d_as_stored) shape.d_order = reordered(d, order);
  return shape;
}

}  // namespace simrun
