#include "schedules/unlike_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/layout_rules.h"
#include "schedules/rank_placement.h"

namespace simrun {
namespace {

// The prime factors of d1, of d2 / d1, ... of the sizes that occur, in ascending order. REQUIRES: each
// divides the next.
std::vector<std::int64_t> factors_of(std::vector<std::int64_t> sizes) {
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::int64_t> factors;
  std::int64_t size = 1;
  for (const std::int64_t next : sizes) {
    std::int64_t rest = next / size;
    for (std::int64_t prime = 2; rest > 1; ++prime)
      for (; rest % prime == 0; rest /= prime) factors.push_back(prime);
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

// Every data-parallel axis that `other` lacks beside the innermost tensor-parallel axis of its size there
// that is still free: one of a size that `mesh` lacks, or else one that both have, along which `mesh` then
// has partners no more.
void pair_data_axes(const DeviceMesh& mesh, const DeviceMesh& other, AxisMap& across, AxisMap& back) {
  for (std::size_t d = mesh.kind.size(); d-- > 0;) {
    if (mesh.kind[d] != 'd' || mesh.mesh.axes[d].size == 1 || across[d] != no_axis) continue;
    for (std::size_t t = 0; t < other.kind.size(); ++t) {
      const bool is_free = back[t] == no_axis || back[t] == t;
      if (other.kind[t] != 't' || !is_free || other.mesh.axes[t].size != mesh.mesh.axes[d].size) continue;
      across[t] = no_axis;
      across[d] = static_cast<AxisId>(t);
      back[t] = static_cast<AxisId>(d);
      break;
    }
  }
}

// The link of the slowest kind between two devices.
struct Line {
  double latency_s = 0;
  double bandwidth = 0;  // bytes/s that a GPU has of it
};
Line line_between(const Cluster& cluster, std::int64_t from, std::int64_t to) {
  const bool inside = from / cluster.gpus_per_node == to / cluster.gpus_per_node;
  const LinkClass& link = inside ? cluster.intra_node : cluster.inter_node;
  const double nics = inside ? 1
                             : static_cast<double>(cluster.nics_per_node) /
                                   static_cast<double>(std::max<std::int64_t>(cluster.gpus_per_node, 1));
  return {link.latency_s, link.bandwidth * link.efficiency * std::max(nics, 1e-9)};
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

MeshBorder border_of_common_axes(const DeviceMesh& before, const DeviceMesh& behind) {
  MeshBorder border;
  for (std::size_t a = 0; a < before.mesh.axes.size(); ++a) {
    const bool common = before.mesh.axes[a].size == behind.mesh.axes[a].size;
    border.behind_of_before.push_back(common ? static_cast<AxisId>(a) : no_axis);
  }
  border.before_of_behind = border.behind_of_before;
  return border;
}

MeshBorder border_between(const DeviceMesh& before, const DeviceMesh& behind) {
  MeshBorder border = border_of_common_axes(before, behind);
  pair_data_axes(before, behind, border.behind_of_before, border.before_of_behind);
  pair_data_axes(behind, before, border.before_of_behind, border.behind_of_before);
  return border;
}

Layout layout_across(Layout layout, const AxisMap& across) {
  for (DimensionSplit& split : layout.splits) {
    for (AxisId& axis : split.axes) axis = across[axis];
    std::erase(split.axes, no_axis);
  }
  std::erase_if(layout.splits, [](const DimensionSplit& split) { return split.axes.empty(); });
  return layout;
}

std::vector<AxisId> axes_alone(const DeviceMesh& mesh, const AxisMap& across) {
  std::vector<AxisId> axes;
  for (std::size_t a = mesh.mesh.axes.size(); a-- > 0;)
    if (mesh.mesh.axes[a].size > 1 && across[a] == no_axis) axes.push_back(static_cast<AxisId>(a));
  return axes;
}

std::vector<std::int64_t> partner_places(const Mesh& mesh, const Mesh& other, const AxisMap& across) {
  if (mesh == other) return {};
  std::vector<std::int64_t> stride(other.axes.size(), 1);
  for (std::size_t a = 1; a < stride.size(); ++a) stride[a] = stride[a - 1] * other.axes[a - 1].size;
  std::int64_t count = 1;
  for (const Axis& axis : mesh.axes) count *= axis.size;
  std::vector<std::int64_t> places;
  for (std::int64_t place = 0; place < count; ++place) {
    std::int64_t rest = place, partner = 0;
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      const std::int64_t coordinate = rest % mesh.axes[a].size;
      rest /= mesh.axes[a].size;
      if (coordinate > 0 && across[a] == no_axis) partner = -1;
      if (partner >= 0 && coordinate > 0) partner += coordinate * stride[across[a]];
    }
    places.push_back(partner);
  }
  return places;
}

std::int64_t broadcast_chunks(const Job& job, const DeviceMesh& to, const BorderTransfer& transfer) {
  constexpr std::int64_t most = 16;
  if (transfer.alone.empty()) return 1;
  if (job.parallelism.stage_broadcast_chunks > 0)
    return std::min(job.parallelism.stage_broadcast_chunks, transfer.elements);
  const std::vector<std::vector<DeviceRange>> placed = placed_devices(job);
  const std::int64_t receiver = placed[transfer.to_stage].front().first;
  std::int64_t ranks = 1, last = receiver, stride = 1;
  for (std::size_t a = 0; a < to.mesh.axes.size(); stride *= to.mesh.axes[a++].size) {
    if (std::ranges::find(transfer.alone, a) == transfer.alone.end()) continue;
    ranks *= to.mesh.axes[a].size;
    last += (to.mesh.axes[a].size - 1) * stride;
  }
  const Line over_border = line_between(job.cluster, placed[transfer.from_stage].front().first, receiver);
  const Line behind = line_between(job.cluster, receiver, last);
  const double begins_s = job.cluster.gpu.kernel_launch_s;
  const auto bytes = static_cast<double>(transfer.bytes);
  std::int64_t best = 1;
  double best_s = 0;
  for (std::int64_t chunks = 1; chunks <= std::min(most, transfer.elements); ++chunks) {
    const auto n = static_cast<double>(chunks);
    const double transfer_s = over_border.latency_s + bytes / n / over_border.bandwidth;
    const double broadcast_s =
        begins_s + static_cast<double>(ranks - 1) * behind.latency_s + bytes / n / behind.bandwidth;
    const double all_s = transfer_s + broadcast_s + (n - 1) * std::max(transfer_s, broadcast_s);
    if (chunks == 1 || all_s < best_s) {
      best = chunks;
      best_s = all_s;
    }
  }
  return best;
}

}  // namespace simrun
