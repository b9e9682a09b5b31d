#include "cli/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "schedules/timeline.h"
#include "sim/simulate.h"
#include "sim/worker.h"

namespace simrun {
namespace {

constexpr double small_change = 0.01;
constexpr double improvement = 0.1;

struct MachineNumber {
  std::string name;
  Sensitivity::Unit unit = Sensitivity::Unit::bytes_per_second;
  double value = 0;
  std::function<void(Cluster&, double)> scale;  // by a factor
};

// What was measured stands in the place of intra_node and of the GPU's own figures, and changes with them.
void scale_exchanges(Cluster& cluster, double MeasuredExchange::*field, double factor) {
  for (auto& [name, exchanges] : cluster.measured)
    for (MeasuredExchange& exchange : exchanges) exchange.*field *= factor;
}
void scale_matrix_rates(MeasuredKernels& measured, double factor) {
  for (MeasuredKernels::Product& of : measured.products) of.flops *= factor;
  for (MeasuredKernels::Attention& of : measured.attention) of.flops *= factor;
  for (MeasuredKernels::Attention& of : measured.attention_backward) of.flops *= factor;
}

// What all nodes have, or those of one group.
template <class Change>
void change_gpus(Cluster& cluster, const Change& change) {
  change(cluster.gpu);
  for (NodeGroup& group : cluster.node_groups) change(group.gpu);
}

void scale_link(Cluster& cluster, double LinkClass::*field, LinkClass Cluster::*link, double factor) {
  cluster.*link.*field *= factor;
  if (link == &Cluster::intra_node)
    for (NodeGroup& group : cluster.node_groups) group.intra_node.*field *= factor;
}

void add_link(std::vector<MachineNumber>& numbers, const Cluster& cluster, const std::string& name,
              LinkClass Cluster::*link) {
  numbers.push_back({name + ".bandwidth", Sensitivity::Unit::bytes_per_second, (cluster.*link).bandwidth,
                     [link](Cluster& c, double factor) {
                       scale_link(c, &LinkClass::bandwidth, link, factor);
                       if (link == &Cluster::intra_node)
                         scale_exchanges(c, &MeasuredExchange::bandwidth, factor);
                     }});
  numbers.push_back({name + ".latency", Sensitivity::Unit::seconds, (cluster.*link).latency_s,
                     [link](Cluster& c, double factor) {
                       scale_link(c, &LinkClass::latency_s, link, factor);
                       if (link == &Cluster::intra_node)
                         scale_exchanges(c, &MeasuredExchange::latency_s, factor);
                     }});
}

void add_gpu(std::vector<MachineNumber>& numbers, const Plan& plan) {
  using Unit = Sensitivity::Unit;
  const Gpu& gpu = plan.cluster.gpu;
  const auto add = [&](const char* name, Unit unit, double Gpu::*field) {
    numbers.push_back({name, unit, gpu.*field, [field](Cluster& c, double factor) {
                         change_gpus(c, [&](Gpu& of) { of.*field *= factor; });
                       }});
  };
  const auto peak = gpu.peak_flops.find(plan.job.precision);
  numbers.push_back({"gpu.peak_flops", Unit::flops_per_second,
                     peak == gpu.peak_flops.end() ? 0 : peak->second, [](Cluster& c, double factor) {
                       change_gpus(c, [&](Gpu& of) {
                         for (auto& [dtype, flops] : of.peak_flops) flops *= factor;
                         scale_matrix_rates(of.measured, factor);
                       });
                     }});
  add("gpu.vector_flops", Unit::flops_per_second, &Gpu::vector_flops);
  numbers.push_back(
      {"gpu.memory_bandwidth", Unit::bytes_per_second, gpu.memory_bandwidth, [](Cluster& c, double factor) {
         change_gpus(c, [&](Gpu& of) {
           of.memory_bandwidth *= factor;
           for (auto& [name, rate] : of.measured.kernels) rate *= factor;
         });
       }});
  add("gpu.kernel_launch", Unit::seconds, &Gpu::kernel_launch_s);
}

// Of the PCIe tree, where it is on routes.
void add_pcie(std::vector<MachineNumber>& numbers, const PcieTree& pcie) {
  using Unit = Sensitivity::Unit;
  if (pcie.gpu_switches.empty()) return;
  const auto add = [&](const char* name, Unit unit, LinkClass PcieTree::*link, double LinkClass::*field) {
    numbers.push_back({name, unit, pcie.*link.*field,
                       [link, field](Cluster& c, double factor) { c.wiring.pcie.*link.*field *= factor; }});
  };
  add("pcie.bandwidth", Unit::bytes_per_second, &PcieTree::link, &LinkClass::bandwidth);
  add("pcie.latency", Unit::seconds, &PcieTree::link, &LinkClass::latency_s);
  add("pcie.socket_bandwidth", Unit::bytes_per_second, &PcieTree::socket_link, &LinkClass::bandwidth);
  add("pcie.socket_latency", Unit::seconds, &PcieTree::socket_link, &LinkClass::latency_s);
}

// Of the host, where it keeps what GPUs do not.
void add_host(std::vector<MachineNumber>& numbers, const Plan& plan) {
  using Unit = Sensitivity::Unit;
  const auto is_in = [&](MemorySpace space) {
    return std::ranges::any_of(plan.buffers, [&](const Buffer& buffer) { return buffer.space == space; });
  };
  const auto add = [&](const char* name, Unit unit, double Host::*field) {
    numbers.push_back({name, unit, plan.cluster.host.*field,
                       [field](Cluster& c, double factor) { c.host.*field *= factor; }});
  };
  const bool has_drives = is_in(MemorySpace::nvme);
  if (!has_drives && !is_in(MemorySpace::host)) return;
  add("host.memory_bandwidth", Unit::bytes_per_second, &Host::memory_bandwidth);
  add("host.flops", Unit::flops_per_second, &Host::flops);
  add("host.pcie_bandwidth", Unit::bytes_per_second, &Host::pcie_bandwidth);
  if (!has_drives) return;
  add("host.nvme_read_bandwidth", Unit::bytes_per_second, &Host::nvme_read_bandwidth);
  add("host.nvme_write_bandwidth", Unit::bytes_per_second, &Host::nvme_write_bandwidth);
}

// Of the links, those that this cluster has.
std::vector<MachineNumber> machine_numbers(const Plan& plan) {
  const Cluster& cluster = plan.cluster;
  std::vector<MachineNumber> numbers;
  if (cluster.nodes > 1) {
    add_link(numbers, cluster, "inter_node", &Cluster::inter_node);
    numbers.push_back({"inter_node.flow_bandwidth", Sensitivity::Unit::bytes_per_second,
                       cluster.inter_node.flow_bandwidth,
                       [](Cluster& c, double factor) { c.inter_node.flow_bandwidth *= factor; }});
    if (cluster.fabric.topology == FabricTopology::leaf_spine)
      numbers.push_back({"fabric.spine_latency", Sensitivity::Unit::seconds, cluster.fabric.spine_latency_s,
                         [](Cluster& c, double factor) { c.fabric.spine_latency_s *= factor; }});
  }
  if (cluster.gpus_per_node > 1) add_link(numbers, cluster, "intra_node", &Cluster::intra_node);
  add_pcie(numbers, cluster.wiring.pcie);
  add_gpu(numbers, plan);
  add_host(numbers, plan);
  std::erase_if(numbers, [](const MachineNumber& number) { return number.value <= 0; });
  return numbers;
}

bool is_rate(const MachineNumber& number) { return number.unit != Sensitivity::Unit::seconds; }

Picoseconds step_with(const Plan& plan, EngineChoice engine, const MachineNumber& number, double factor) {
  Plan changed = plan;
  number.scale(changed.cluster, factor);
  return simulate(changed, {Detail::totals, engine}).step;
}

}  // namespace

std::vector<Sensitivity> sensitivities(const Plan& plan, const Timeline& timeline) {
  const EngineChoice engine = timeline.engine == "simgrid" ? EngineChoice::simgrid : EngineChoice::fast;
  const std::vector<MachineNumber> numbers = machine_numbers(plan);
  std::vector<std::function<std::string()>> runs;
  for (const MachineNumber& number : numbers)
    for (const double factor :
         {1 + small_change, 1 - small_change, is_rate(number) ? 1 + improvement : 1 - improvement})
      runs.emplace_back([&plan, &number, engine, factor] {
        return std::to_string(step_with(plan, engine, number, factor));
      });
  const std::vector<std::string> steps = run_in_workers(runs, 0);
  const double step = to_seconds(timeline.step);
  std::vector<Sensitivity> rows;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const auto seconds = [&](std::size_t run) { return to_seconds(std::stoll(steps[3 * n + run])); };
    const double more = seconds(0), less = seconds(1), better = seconds(2);
    const double value = numbers[n].value;
    rows.push_back({.name = numbers[n].name,
                    .unit = numbers[n].unit,
                    .value = value,
                    .elasticity = std::log(more / less) / std::log((1 + small_change) / (1 - small_change)),
                    .derivative = (more - less) / (2 * small_change * value),
                    .saved_s = step - better});
  }
  return rows;
}

}  // namespace simrun
