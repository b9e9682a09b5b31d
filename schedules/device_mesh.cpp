#include "schedules/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

#include "configs/expert_nodes.h"

namespace simrun {
namespace {

// A logical axis as the ranks [begin, end) of strides: it joins ranks that are a multiple of `begin` apart
// and less than `end`.
struct Span {
  std::string name;
  std::int64_t begin, end;
};

std::vector<Span> spans_of(const MeshShape& shape) {
  const std::int64_t tp = shape.tp, cp = tp * shape.cp, all = cp * shape.dp;
  const std::int64_t etp = shape.etp, ep = etp * shape.ep;
  const std::int64_t ep_inner = shape.ep_inner > 0 ? shape.ep_inner : shape.ep;
  std::vector<Span> spans{{"tp", 1, tp},
                          {"cp", tp, cp},
                          {"dp", cp, all},
                          {"etp", 1, etp},
                          {"ep", etp, ep},
                          {"edp", ep, all},
                          {"cp_inner", tp, tp * shape.cp_inner},
                          {"cp_outer", tp * shape.cp_inner, cp},
                          {"ep_inner", etp, etp * ep_inner},
                          {"ep_outer", etp * ep_inner, ep},
                          {"dp_inner", cp, cp * shape.dp_inner},
                          {"dp_outer", cp * shape.dp_inner, all}};
  std::int64_t stride = 1;
  for (const Axis& axis : shape.own) {
    spans.push_back({axis.name, stride, stride * axis.size});
    stride *= axis.size;
  }
  for (const std::int64_t count : shape.counts) spans.push_back({axis_of_ranks(count), 1, count});
  return spans;
}

std::vector<std::int64_t> cuts_of(const std::vector<Span>& spans) {
  std::set<std::int64_t> cuts{1};
  for (const Span& span : spans) cuts.insert({span.begin, span.end});
  std::vector<std::int64_t> sorted(cuts.begin(), cuts.end());
  for (std::size_t c = 1; c < sorted.size(); ++c)
    if (sorted[c] % sorted[c - 1] != 0)
      throw std::invalid_argument(fmt::format(
          "groups of {} and of {} neighbouring ranks cut across each other; of two group sizes the "
          "larger must be a multiple of the smaller",
          sorted[c - 1], sorted[c]));
  return sorted;
}

struct DenseAxis {
  char kind;
  const char* name;
  std::int64_t begin, end;
};

// Names of the pieces of a dense axis: its own if it is whole, else numbered from the innermost.
void add_pieces(DeviceMesh& result, const DenseAxis& axis, const std::vector<std::int64_t>& cuts) {
  std::vector<std::int64_t> sizes;
  for (std::size_t c = 1; c < cuts.size(); ++c)
    if (cuts[c - 1] >= axis.begin && cuts[c] <= axis.end) sizes.push_back(cuts[c] / cuts[c - 1]);
  if (sizes.empty()) sizes.push_back(1);
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    result.mesh.axes.push_back({sizes.size() == 1 ? axis.name : fmt::format("{}{}", axis.name, s), sizes[s]});
    result.kind.push_back(axis.kind);
  }
}

std::vector<AxisId> axes_within(const Mesh& mesh, const Span& span) {
  std::vector<AxisId> axes;
  std::int64_t stride = 1;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const std::int64_t next = stride * mesh.axes[a].size;
    if (stride >= span.begin && next <= span.end && next > stride) axes.push_back(static_cast<AxisId>(a));
    stride = next;
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

}  // namespace

std::int64_t data_parallel_replicas(const Job& job) {
  if (job.optimizer.all_reduce == AllReduceKind::flat)
    return job.optimizer.num_distributed_optimizer_instances;
  return job.parallelism.tensor_model_parallel_size * job.parallelism.context_parallel_size *
         job.parallelism.data_parallel_size / job.cluster.gpus_per_node;
}

MeshShape mesh_shape(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  MeshShape shape;
  shape.tp = parallelism.tensor_model_parallel_size;
  shape.cp = parallelism.context_parallel_size;
  shape.dp = parallelism.data_parallel_size;
  if (data_parallel_replicas(job) > 1) shape.dp_inner = shape.dp / data_parallel_replicas(job);
  shape.etp = parallelism.expert_tensor_parallel_size;
  shape.ep = parallelism.expert_model_parallel_size;
  shape.cp_inner = parallelism.context_a2a_size;
  if (job.model.experts.count > 0 && job.moe.token_dispatcher == TokenDispatcher::deepep)
    if (const std::optional<ExpertNodes> on = expert_nodes(job)) shape.ep_inner = on->ranks;
  for (const OwnAxis& axis : job.layout.mesh) shape.own.push_back({axis.name, axis.size});
  for (const RegionRule& rule : job.layout.rules)
    if (rule.task_graph.kind != TaskGraph::Kind::none) shape.counts.push_back(rule.task_graph.count);
  return shape;
}

std::string axis_of_ranks(std::int64_t count) { return fmt::format("{} ranks", count); }

std::vector<AxisId> DeviceMesh::axes(const std::string& name) const {
  const auto found = logical.find(name);
  return found == logical.end() ? std::vector<AxisId>{} : found->second;
}

std::int64_t DeviceMesh::size(const std::vector<AxisId>& axes) const {
  std::int64_t product = 1;
  for (const AxisId axis : axes) product *= mesh.axes[axis].size;
  return product;
}

std::string DeviceMesh::names(const std::vector<AxisId>& axes) const {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : ",") + mesh.axes[axis].name;
  return text;
}

// Of logical axes that name the same mesh axes, the first in this order does; a user's own are behind all.
static std::size_t preference(const std::string& name) {
  constexpr std::array<std::string_view, 12> order{"tp",       "cp",       "dp",       "ep",
                                                   "etp",      "edp",      "cp_inner", "cp_outer",
                                                   "ep_inner", "ep_outer", "dp_inner", "dp_outer"};
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), name) - order.begin());
}

// The longest logical axis that the list goes on with.
std::string DeviceMesh::words(const std::vector<AxisId>& axes) const {
  const auto is_empty = [&](const char* name) {
    const auto found = logical.find(name);
    return found == logical.end() || found->second.empty();
  };
  // Without experts edp would name all ranks.
  const bool has_edp = !is_empty("ep") || !is_empty("etp");
  std::string text;
  for (std::size_t at = 0; at < axes.size();) {
    const std::string* name = nullptr;
    std::size_t length = 0;
    for (const auto& [candidate, of] : logical) {
      const bool fits = !of.empty() && of.size() >= length && of.size() <= axes.size() - at &&
                        std::equal(of.begin(), of.end(), axes.begin() + static_cast<std::ptrdiff_t>(at)) &&
                        (has_edp || candidate != "edp");
      if (!fits || (of.size() == length && preference(candidate) >= preference(*name))) continue;
      name = &candidate;
      length = of.size();
    }
    text += (text.empty() ? "" : " x ") + (name == nullptr ? mesh.axes[axes[at]].name : *name);
    at += std::max<std::size_t>(length, 1);
  }
  return text;
}

DeviceMesh device_mesh(const MeshShape& shape) {
  const std::int64_t ranks = shape.tp * shape.cp * shape.dp;
  if (ranks % (shape.etp * shape.ep) != 0)
    throw std::invalid_argument(fmt::format("experts over {} x {} ranks do not divide a stage of {} ranks",
                                            shape.etp, shape.ep, ranks));
  const std::vector<Span> spans = spans_of(shape);
  const std::vector<std::int64_t> cuts = cuts_of(spans);
  DeviceMesh result;
  result.mesh.name = "dense";
  const std::int64_t tp = shape.tp, cp = tp * shape.cp;
  for (const DenseAxis& axis :
       {DenseAxis{'t', "tp", 1, tp}, DenseAxis{'c', "cp", tp, cp}, DenseAxis{'d', "dp", cp, ranks}})
    add_pieces(result, axis, cuts);
  for (const Span& span : spans) result.logical[span.name] = axes_within(result.mesh, span);
  return result;
}

}  // namespace simrun
