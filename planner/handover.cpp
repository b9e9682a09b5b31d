#include "planner/handover.h"

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

}  // namespace

double handover_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh) {
  const std::int64_t devices = mesh.devices();
  if (2 * devices > job.world_size()) return 0;
  Plan plan;
  plan.cluster = job.cluster;
  plan.stages = {{{{0, devices}}, {stage.mesh.mesh}}, {{{devices, devices}}, {stage.mesh.mesh}}};
  Communication to_next;
  to_next.peer.pipeline_rank = 1;
  to_next.channel = 0;
  const Topology topology(plan.cluster);
  ExchangeCosts costs(topology, plan, 0, Opcode::send, to_next);
  const double bytes = boundary_bytes(stage) / static_cast<double>(devices);
  return 2e-12 * static_cast<double>(costs.together(bytes));
}

}  // namespace simrun
