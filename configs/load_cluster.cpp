// The cluster section: nodes, the GPU (a preset, or a map), the two classes of links and the switches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/network_rules.h"

namespace simrun {
namespace {

std::int64_t bytes_in(SectionReader& section, const std::string& key, RealRange range,
                      std::optional<std::string> fallback = {}) {
  return std::llround(section.quantity(key, Unit::bytes, range, std::move(fallback)));
}

std::map<Dtype, double> read_peaks(const ConfigNode* node, Reading& reading) {
  std::map<Dtype, double> peaks;
  SectionReader section(reading, node, "cluster.gpu.peak_flops");
  for (const Dtype dtype : {Dtype::fp64, Dtype::fp32, Dtype::tf32, Dtype::fp16, Dtype::bf16, Dtype::fp8}) {
    const std::string key = to_string(dtype);
    if (section.has(key)) peaks[dtype] = section.quantity(key, Unit::flops_per_second, limits::flops);
    section.ignore({key});
  }
  section.finish();
  if (node == nullptr && !reading.is_partial("cluster.gpu"))
    reading.problem("cluster.gpu", "missing required key 'peak_flops' in 'cluster.gpu'");
  return peaks;
}

Gpu read_gpu(const ConfigNode& node, const std::string& base_name, Reading& reading) {
  Gpu gpu;
  SectionReader section(reading, &node, "cluster.gpu");
  section.ignore({"simrun"});
  gpu.name = section.name("name", base_name.empty() ? "custom" : base_name);
  gpu.peak_flops = read_peaks(section.section("peak_flops"), reading);
  gpu.vector_flops = section.quantity("vector_flops", Unit::flops_per_second, limits::flops);
  gpu.memory_bytes = bytes_in(section, "memory", limits::memory);
  if (section.has("driver_memory"))
    gpu.driver_memory_bytes = bytes_in(section, "driver_memory", limits::reserve);
  if (section.has("matmul_workspace"))
    gpu.matmul_workspace_bytes = bytes_in(section, "matmul_workspace", limits::reserve);
  section.ignore({"driver_memory", "matmul_workspace"});
  gpu.memory_bandwidth = section.quantity("memory_bandwidth", Unit::bytes_per_second, limits::bandwidth);
  gpu.sm_count = section.integer("sm_count", limits::streaming_multiprocessors);
  gpu.l2_bytes = bytes_in(section, "l2", limits::cache);
  gpu.nvlink_bandwidth =
      section.quantity("nvlink_bandwidth", Unit::bytes_per_second, limits::optional_bandwidth, "0 GB/s");
  gpu.kernel_launch_s = section.quantity("kernel_launch", Unit::seconds, limits::latency);
  gpu.matmul_efficiency = section.real("matmul_efficiency", limits::share);
  gpu.memory_efficiency = section.real("memory_efficiency", limits::share);
  gpu.special_functions =
      section.quantity("special_functions", Unit::flops_per_second, limits::optional_flops, "0 TFLOP/s");
  if (section.has("communication_sms"))
    gpu.communication_sms =
        section.integer("communication_sms", {0, std::max<std::int64_t>(gpu.sm_count, 1) - 1});
  section.ignore({"communication_sms"});
  gpu.mxfp8 = section.boolean("mxfp8", false);
  gpu.kernels = read_gpu_kernels(section.section("kernels"), reading);
  gpu.measured = read_measured_kernels(section.section("measured"), reading);
  section.finish();
  return gpu;
}

// `gpu: h100_sxm` is short for `gpu: {from: h100_sxm}`.
void read_gpu_of(const ConfigNode* node, const PresetSearch& search, Reading& reading, Cluster& cluster) {
  if (node == nullptr) {
    if (!reading.is_partial("cluster"))
      reading.problem("cluster", "missing required key 'gpu' in 'cluster'", "for example gpu: h100_sxm.");
    return;
  }
  ConfigNode gpu = *node;
  if (gpu.kind == ConfigNode::Kind::scalar) {
    ConfigNode name = gpu;
    name.key = "from";
    gpu.kind = ConfigNode::Kind::map;
    gpu.children = {name};
  }
  const ResolvedSection resolved = resolve_from(std::move(gpu), "gpus", search, reading);
  if (!resolved.found) reading.partial_sections.emplace_back("cluster.gpu");
  Gpu read = read_gpu(resolved.node, resolved.base_name, reading);
  if (resolved.found) cluster.gpu = std::move(read);
}

// `fallback` is the bandwidth of a link that does not say its own.
LinkClass read_link(const ConfigNode* node, const std::string& name,
                    const std::optional<std::string>& fallback, Reading& reading, Cluster& cluster) {
  LinkClass link;
  if (node == nullptr) {
    if (reading.is_partial("cluster")) return link;
    reading.problem("cluster", fmt::format("missing required key '{}' in 'cluster'", name),
                    fmt::format("for example {}: {{bandwidth: 50 GB/s, latency: 5 us}}.", name));
    return link;
  }
  SectionReader section(reading, node, "cluster." + name);
  const bool has_no_nvlink = name == "intra_node" && !fallback && !section.has("bandwidth");
  if (has_no_nvlink && !section.is_no_map() && !reading.is_partial("cluster"))
    reading.problem("cluster.intra_node", "missing required key 'bandwidth' in 'cluster.intra_node'",
                    "the GPU has no NVLink: write cluster.intra_node.bandwidth, for example 16 GB/s.");
  if (has_no_nvlink)
    section.ignore({"bandwidth"});
  else
    link.bandwidth = section.quantity("bandwidth", Unit::bytes_per_second, limits::bandwidth, fallback);
  link.latency_s = section.quantity("latency", Unit::seconds, limits::latency);
  link.efficiency = section.real("efficiency", limits::share, 1.0);
  link.sharp = section.boolean("sharp", false);
  if (name == "intra_node")
    read_intra_wiring(section, reading, cluster);
  else
    link.flow_bandwidth =
        section.quantity("flow_bandwidth", Unit::bytes_per_second, limits::optional_bandwidth, "0 GB/s");
  section.finish();
  return link;
}

// Beside a refused value only what is written is judged.
void report_faults(const Cluster& cluster, std::size_t problems_before, Reading& reading) {
  if (reading.is_partial("cluster") || reading.problems.size() > problems_before) return;
  for (NetworkFault& fault : network_faults(cluster))
    reading.problem("cluster." + fault.key, std::move(fault.message), std::move(fault.hint));
}

// What the GPUs of a node talk over unless the config says: their NVLink.
std::optional<std::string> nvlink_of(const Reading& reading, const Gpu& gpu) {
  if (gpu.name.empty()) return "1 GB/s";  // the GPU was refused: do not ask for its links as well
  if (gpu.nvlink_bandwidth <= 0) return std::nullopt;
  for (const EffectiveValue& value : reading.values)
    if (value.path == "cluster.gpu.nvlink_bandwidth") return value.text;
  return std::nullopt;
}

}  // namespace

void read_cluster(const ConfigNode* node, const PresetSearch& search, Reading& reading, Job& job) {
  if (node == nullptr)
    return reading.problem("cluster", "missing required section 'cluster'",
                           "for example cluster: {from: dgx_h100, nodes: 8}.");
  const std::size_t problems_before = reading.problems.size();
  ResolvedSection resolved = resolve_from(*node, "clusters", search, reading);
  resolved.node = with_nvidia_smi_topo(std::move(resolved.node), reading);
  if (!resolved.found) reading.partial_sections.emplace_back("cluster");
  Cluster& cluster = job.cluster;
  SectionReader section(reading, &resolved.node, "cluster");
  if (section.is_no_map()) return;
  section.ignore({"simrun"});
  cluster.name = section.name("name", resolved.base_name.empty() ? "custom" : resolved.base_name);
  cluster.nodes = section.integer("nodes", limits::nodes);
  cluster.gpus_per_node = section.integer("gpus_per_node", limits::gpus_per_node);
  cluster.nics_per_node = section.integer("nics_per_node", limits::nics_per_node,
                                          std::max<std::int64_t>(cluster.gpus_per_node, 1));
  read_gpu_of(section.section("gpu"), search, reading, cluster);
  const ConfigNode* intra_node = section.section("intra_node");
  const ConfigNode* inter_node = section.section("inter_node");
  if (intra_node != nullptr || cluster.gpus_per_node > 1)
    cluster.intra_node =
        read_link(intra_node, "intra_node", nvlink_of(reading, cluster.gpu), reading, cluster);
  if (inter_node != nullptr || cluster.nodes > 1)
    cluster.inter_node = read_link(inter_node, "inter_node", std::nullopt, reading, cluster);
  read_pcie(section.section("pcie"), reading, cluster);
  cluster.wiring.gpu_direct = section.boolean("gpu_direct", true);
  read_fabric(section.section("fabric"), reading, cluster);
  report_faults(cluster, problems_before, reading);
  read_host(section.section("host"), reading, cluster);
  cluster.communication =
      section.word("communication", {{"overlapped", "blocking"}}, "overlapped") == "blocking"
          ? CommunicationMode::blocking
          : CommunicationMode::overlapped;
  cluster.measured = read_measured_exchanges(section.section("measured"), reading);
  read_collectives(section.section("collectives"), search, reading, cluster);
  cluster.reserved_bytes = bytes_in(section, "reserved_memory", limits::reserve, "2 GiB");
  if (cluster.gpu.memory_bytes > 0 && cluster.reserved_bytes >= cluster.gpu.memory_bytes)
    reading.problem("cluster.reserved_memory",
                    fmt::format("reserved_memory {:.1f} GiB leaves nothing of the {:.1f} GiB of a {}",
                                static_cast<double>(cluster.reserved_bytes) / 0x1p30,
                                static_cast<double>(cluster.gpu.memory_bytes) / 0x1p30, cluster.gpu.name),
                    "2 GiB is the default.");
  section.finish();
}

}  // namespace simrun
