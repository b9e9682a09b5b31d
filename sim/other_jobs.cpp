#include "sim/other_jobs.h"

#include <algorithm>
#include <utility>

#include "sim/kernel_cost.h"

namespace simrun {
namespace {

Opcode opcode_of(const std::string& collective) {
  for (const Opcode opcode : {Opcode::all_gather, Opcode::reduce_scatter, Opcode::all_to_all})
    if (to_string(opcode) == collective) return opcode;
  return Opcode::all_reduce;
}

ExchangeFlows flows_of(const Topology& topology, const Cluster& cluster, const OtherJob& job) {
  const std::int64_t gpus = topology.gpus_per_node();
  if (!job.nodes.empty()) {
    std::vector<std::int64_t> nodes = job.nodes, devices;
    std::ranges::sort(nodes);
    for (const std::int64_t node : nodes)
      for (std::int64_t gpu = 0; gpu < gpus; ++gpu) devices.push_back(node * gpus + gpu);
    return collective_flows(topology, cluster, opcode_of(job.collective), devices, job.bytes);
  }
  FlowPhase phase;
  phase.independent = true;
  for (std::size_t i = 0; i < job.from.size(); ++i)
    for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
      const Route route = topology.route(job.from[i] * gpus + gpu, job.to[i] * gpus + gpu);
      phase.latency_s = std::max(phase.latency_s, route.latency_s);
      phase.flows.push_back({route, 1 / static_cast<double>(gpus)});
    }
  return in_turn(std::move(phase));
}

}  // namespace

std::vector<PeriodicExchange> other_jobs_traffic(const Topology& topology, const Cluster& cluster) {
  std::vector<PeriodicExchange> all;
  for (const OtherJob& job : cluster.imperfections.other_jobs)
    all.push_back({{flows_of(topology, cluster, job), job.bytes},
                   to_picoseconds(job.period_s),
                   to_picoseconds(job.phase_s)});
  return all;
}

}  // namespace simrun
