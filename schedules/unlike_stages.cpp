#include "schedules/unlike_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/layout_rules.h"

namespace simrun {
namespace {

// d1, d2 / d1, ... of the sizes that occur, in ascending order. REQUIRES: each divides the next.
std::vector<std::int64_t> factors_of(std::vector<std::int64_t> sizes) {
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::int64_t> factors;
  std::int64_t size = 1;
  for (const std::int64_t next : sizes) {
    if (next > size) factors.push_back(next / size);
    size = next;
  }
  if (factors.empty()) factors.push_back(1);
  return factors;
}

void add_axes(DeviceMesh& mesh, char kind, const char* name, const std::vector<std::int64_t>& factors,
              std::int64_t size) {
  std::vector<Axis> axes;
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    product *= factor;
    axes.push_back({"", product <= size ? factor : 1});
  }
  std::reverse(axes.begin(), axes.end());
  for (std::size_t a = 0; a < axes.size(); ++a) {
    axes[a].name = axes.size() == 1 ? name : fmt::format("{}{}", name, a);
    mesh.mesh.axes.push_back(axes[a]);
    mesh.kind.push_back(kind);
  }
}

// The mesh axes of a kind that have ranks, the outermost first.
std::vector<AxisId> axes_of_kind(const DeviceMesh& mesh, char kind) {
  std::vector<AxisId> axes;
  for (std::size_t a = mesh.kind.size(); a-- > 0;)
    if (mesh.kind[a] == kind && mesh.mesh.axes[a].size > 1) axes.push_back(static_cast<AxisId>(a));
  return axes;
}

}  // namespace

std::vector<DeviceMesh> stage_meshes(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  if (!parallelism.has_unlike_stages()) return {mesh_of(job)};
  const std::vector<std::int64_t> tensor = factors_of(parallelism.stage_tensor_sizes);
  const std::vector<std::int64_t> data = factors_of(parallelism.stage_data_sizes);
  std::vector<DeviceMesh> meshes;
  for (std::size_t stage = 0; stage < parallelism.stage_tensor_sizes.size(); ++stage) {
    DeviceMesh mesh;
    mesh.mesh.name = "dense";
    add_axes(mesh, 't', "tp", tensor, parallelism.stage_tensor_sizes[stage]);
    add_axes(mesh, 'c', "cp", {1}, 1);
    add_axes(mesh, 'd', "dp", data, parallelism.stage_data_sizes[stage]);
    for (const char* name :
         {"cp", "etp", "ep", "edp", "cp_inner", "cp_outer", "ep_inner", "ep_outer", "dp_inner", "dp_outer"})
      mesh.logical[name] = {};
    mesh.logical["tp"] = axes_of_kind(mesh, 't');
    mesh.logical["dp"] = mesh.logical["dp_inner"] = axes_of_kind(mesh, 'd');
    meshes.push_back(std::move(mesh));
  }
  return meshes;
}

Job job_of_stage(Job job, std::size_t stage) {
  Parallelism& parallelism = job.parallelism;
  if (!parallelism.has_unlike_stages()) return job;
  const std::int64_t samples = job.training.micro_batch_size * parallelism.data_parallel_size;
  parallelism.tensor_model_parallel_size = parallelism.stage_tensor_sizes[stage];
  parallelism.data_parallel_size = parallelism.stage_data_sizes[stage];
  job.training.micro_batch_size = samples / parallelism.data_parallel_size;
  parallelism.stage_tensor_sizes.clear();
  parallelism.stage_data_sizes.clear();
  return job;
}

Layout common_layout(Layout layout, const DeviceMesh& one, const DeviceMesh& other) {
  const auto is_own = [&](AxisId axis) { return one.mesh.axes[axis].size != other.mesh.axes[axis].size; };
  for (DimensionSplit& split : layout.splits) std::erase_if(split.axes, is_own);
  std::erase_if(layout.splits, [](const DimensionSplit& split) { return split.axes.empty(); });
  return layout;
}

std::vector<AxisId> axes_beyond(const DeviceMesh& mesh, const DeviceMesh& other) {
  std::vector<AxisId> axes;
  for (std::size_t a = mesh.mesh.axes.size(); a-- > 0;)
    if (mesh.mesh.axes[a].size > other.mesh.axes[a].size) axes.push_back(static_cast<AxisId>(a));
  return axes;
}

std::vector<std::int64_t> partner_places(const Mesh& mesh, const Mesh& other) {
  if (mesh == other) return {};
  std::int64_t count = 1;
  for (const Axis& axis : mesh.axes) count *= axis.size;
  std::vector<std::int64_t> places;
  for (std::int64_t place = 0; place < count; ++place) {
    std::int64_t rest = place, partner = 0, stride = 1;
    bool has_partner = true;
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      const std::int64_t coordinate = rest % mesh.axes[a].size;
      rest /= mesh.axes[a].size;
      has_partner = has_partner && coordinate < other.axes[a].size;
      partner += coordinate * stride;
      stride *= other.axes[a].size;
    }
    places.push_back(has_partner ? partner : -1);
  }
  return places;
}

}  // namespace simrun
