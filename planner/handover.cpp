#include "planner/handover.h"

#include <array>

#include "sim/exchange_costs.h"
#include "sim/topology.h"

namespace simrun {
namespace {

// What the first layer reads from before it, as every later one does.
double boundary_bytes(const StageGraph& stage) {
  std::vector<bool> is_before(stage.graph.tensors.size(), false), is_counted = is_before;
  double bytes = 0;
  for (std::size_t o = 0; o < stage.segment.size(); ++o) {
    const Operator& op = stage.graph.operators[o];
    for (const TensorId output : op.outputs) is_before[output] = stage.segment[o] == 1;
    if (stage.segment[o] != 2) continue;
    for (const TensorId input : op.inputs) {
      if (!is_before[input] || is_counted[input]) continue;
      is_counted[input] = true;
      const Tensor& tensor = stage.graph.tensors[input];
      bytes += static_cast<double>(padded_elements(stage.graph, tensor) * bytes_of(tensor.dtype));
    }
  }
  return bytes;
}

// All devices of one stage to those of another, which begin at these.
double send_seconds(const Job& job, const Mesh& mesh, std::array<std::int64_t, 2> begin,
                    double bytes_of_device) {
  std::int64_t devices = 1;
  for (const Axis& axis : mesh.axes) devices *= axis.size;
  Plan plan;
  plan.cluster = job.cluster;
  for (const std::int64_t first : begin) plan.stages.push_back({{{first, devices}}, {mesh}});
  Communication to_other;
  to_other.peer.pipeline_rank = 1;
  to_other.channel = 0;
  const Topology topology(plan.cluster);
  ExchangeCosts costs(topology, plan, 0, Opcode::send, to_other);
  return 1e-12 * static_cast<double>(costs.together(bytes_of_device));
}

}  // namespace

double boundary_seconds(const Job& job, const Mesh& mesh, double bytes_of_device) {
  std::int64_t devices = 1;
  for (const Axis& axis : mesh.axes) devices *= axis.size;
  const std::int64_t of_node = job.cluster.gpus_per_node;
  if (2 * devices > job.world_size()) return 0;
  const std::int64_t second = devices < of_node && job.cluster.nodes > 1 ? of_node : devices;
  return 2 * send_seconds(job, mesh, {second - devices, second}, bytes_of_device);
}

double ends_seconds(const Job& job, const Mesh& mesh, double bytes_of_device) {
  std::int64_t devices = 1;
  for (const Axis& axis : mesh.axes) devices *= axis.size;
  if (bytes_of_device == 0 || 2 * devices > job.world_size()) return 0;
  return send_seconds(job, mesh, {0, job.world_size() - devices}, bytes_of_device);
}

double handover_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh) {
  return boundary_seconds(job, stage.mesh.mesh, boundary_bytes(stage) / static_cast<double>(mesh.devices()));
}

// Two ranks hand each other half of what they have, then the sums of the halves.
double shared_parameter_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh) {
  std::vector<std::int32_t> read_in(stage.graph.tensors.size(), -1);
  double bytes = 0;
  for (std::size_t o = 0; o < stage.segment.size(); ++o)
    for (const TensorId input : stage.graph.operators[o].inputs) {
      const Tensor& tensor = stage.graph.tensors[input];
      if (tensor.kind != TensorKind::parameter || tensor.frozen) continue;
      if (read_in[input] >= 0 && read_in[input] != stage.segment[o])
        bytes += static_cast<double>(padded_elements(stage.graph, tensor) *
                                     bytes_of(job.optimizer.grad_reduce_dtype));
      read_in[input] = stage.segment[o];
    }
  return ends_seconds(job, stage.mesh.mesh, bytes / static_cast<double>(mesh.devices()));
}

}  // namespace simrun
