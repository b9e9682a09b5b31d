#include "sim/offload_cost.h"

#include <algorithm>

namespace simrun {
namespace {

// Adam with weight decay: 3 for each moment, 2 corrections, root, sum, quotient, decay, step (Kingma and Ba
// 2015, algorithm 1).
constexpr double flops_per_element = 13;

double bytes_of_all(const Plan& plan, const std::vector<Index>& buffers) {
  double bytes = 0;
  for (const Index index : buffers) bytes += static_cast<double>(plan.buffers[index].stored_bytes());
  return bytes;
}

double host_memory_rate(const Cluster& cluster) {
  return cluster.host.memory_bandwidth * cluster.host.memory_efficiency /
         static_cast<double>(cluster.gpus_per_node);
}

double copy_rate(const Cluster& cluster, MemorySpace from, MemorySpace to) {
  const Host& host = cluster.host;
  const auto gpus = static_cast<double>(cluster.gpus_per_node);
  if (from == MemorySpace::nvme) return host.nvme_read_bandwidth / gpus;
  if (to == MemorySpace::nvme) return host.nvme_write_bandwidth / gpus;
  return std::min(host.pcie_bandwidth * host.pcie_efficiency, host_memory_rate(cluster));
}

}  // namespace

std::optional<double> offload_seconds(const Plan& plan, const Instruction& instruction) {
  const Cluster& cluster = plan.cluster;
  if (instruction.opcode == Opcode::copy && !instruction.inputs.empty() && !instruction.outputs.empty()) {
    const MemorySpace from = plan.buffers[instruction.inputs[0]].space;
    const MemorySpace to = plan.buffers[instruction.outputs[0]].space;
    if (from != to) return bytes_of_all(plan, instruction.inputs) / copy_rate(cluster, from, to);
  }
  if (instruction.outputs.empty() || plan.buffers[instruction.outputs[0]].space != MemorySpace::host)
    return std::nullopt;
  const double bytes = bytes_of_all(plan, instruction.inputs) + bytes_of_all(plan, instruction.outputs);
  double elements = 0;
  if (!instruction.inputs.empty())
    elements = static_cast<double>(plan.buffers[instruction.inputs[0]].elements());
  const double flops = cluster.host.flops / static_cast<double>(cluster.gpus_per_node);
  return std::max(bytes / host_memory_rate(cluster), flops_per_element * elements / flops);
}

}  // namespace simrun
