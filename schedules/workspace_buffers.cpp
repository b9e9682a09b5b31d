#include "schedules/workspace_buffers.h"

#include <algorithm>
#include <utility>

#include "schedules/flat_buffer.h"

namespace simrun {
namespace {

std::uint16_t dimension_named(Plan& plan, const char* name) {
  const auto found = std::find(plan.dimension_names.begin(), plan.dimension_names.end(), name);
  const auto index = static_cast<std::uint16_t>(found - plan.dimension_names.begin());
  if (found == plan.dimension_names.end()) plan.dimension_names.emplace_back(name);
  return index;
}

struct NamedExtent {
  const char* name;
  std::int64_t extent;
};

Index add_matrices(Plan& plan, const std::string& name, Dtype dtype, const std::vector<NamedExtent>& dims) {
  Buffer buffer;
  buffer.name = name;
  buffer.category = Category::workspace;
  buffer.scope = Scope::step;
  buffer.dtype = dtype;
  for (const NamedExtent& dim : dims)
    buffer.dims.push_back({dimension_named(plan, dim.name), -1, dim.extent});
  plan.buffers.push_back(std::move(buffer));
  return static_cast<Index>(plan.buffers.size() - 1);
}

Index add_view(Plan& plan, Index parent, const std::vector<NamedExtent>& dims) {
  const Buffer of = plan.buffers[parent];
  const Index view = add_matrices(plan, of.name, of.dtype, dims);
  plan.buffers[view].parent = parent;
  return view;
}

}  // namespace

Index add_step_buffer(Plan& plan, const std::string& name, Dtype dtype, std::int64_t elements) {
  const Index buffer = add_flat_buffer(plan, name, Category::workspace, dtype, elements);
  plan.buffers[buffer].scope = Scope::step;
  return buffer;
}

Index add_step_buffer(Plan& plan, const std::string& name, Dtype dtype, const StoredMatrices& matrices) {
  const Index buffer = add_matrices(
      plan, name, dtype,
      {{"matrices", matrices.count}, {"leading", matrices.leading}, {"trailing", matrices.trailing}});
  if (!matrices.leading_split.empty() || !matrices.trailing_split.empty())
    plan.buffers[buffer].split = {"", matrices.leading_split, matrices.trailing_split};
  return buffer;
}

const NewtonSchulzBuffers& MatrixWorkspace::of(Plan& plan, std::int64_t count, std::int64_t rows,
                                               std::int64_t columns, Dtype dtype) {
  const auto [at, is_new] = known_.try_emplace({count, rows, columns});
  NewtonSchulzBuffers& buffers = at->second;
  if (!is_new) return buffers;
  const NamedExtent batch{"matrices", count}, wide{"columns", columns};
  const NamedExtent m{"rows", rows}, second{"rows_2", rows}, third{"rows_3", rows};
  for (NewtonSchulzBuffers::Iterate& x : buffers.x) {
    x.whole = add_matrices(plan, "newton-schulz iterate", dtype, {batch, m, wide});
    x.transposed = add_view(plan, x.whole, {batch, second, wide});
    x.right = add_view(plan, x.whole, {batch, third, wide});
  }
  buffers.gram = add_matrices(plan, "newton-schulz gram", dtype, {batch, m, second});
  buffers.gram_right = add_view(plan, buffers.gram, {batch, second, third});
  buffers.square = add_matrices(plan, "newton-schulz polynomial", dtype, {batch, m, third});
  return buffers;
}

}  // namespace simrun
