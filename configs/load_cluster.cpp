// The cluster section: nodes, the GPU (a preset, or a map), the two classes of links and the switches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/network_rules.h"
#include "configs/node_groups.h"

namespace simrun {
namespace {

std::int64_t bytes_in(SectionReader& section, const std::string& key, RealRange range,
                      std::optional<std::string> fallback = {}) {
  return std::llround(section.quantity(key, Unit::bytes, range, std::move(fallback)));
}

// `gpu`: the dotted path of its section.
std::map<Dtype, double> read_peaks(const ConfigNode* node, const std::string& gpu, Reading& reading) {
  std::map<Dtype, double> peaks;
  SectionReader section(reading, node, gpu + ".peak_flops");
  for (const Dtype dtype :
       {Dtype::fp64, Dtype::fp32, Dtype::tf32, Dtype::fp16, Dtype::bf16, Dtype::fp8, Dtype::fp4}) {
    const std::string key = to_string(dtype);
    if (section.has(key)) peaks[dtype] = section.quantity(key, Unit::flops_per_second, limits::flops);
    section.ignore({key});
  }
  section.finish();
  if (node == nullptr && !reading.is_partial(gpu))
    reading.problem(gpu, fmt::format("missing required key 'peak_flops' in '{}'", gpu));
  return peaks;
}

Gpu read_gpu(const ResolvedSection& resolved, const std::string& path, Reading& reading) {
  Gpu gpu;
  SectionReader section(reading, &resolved.node, path);
  section.ignore({"simrun"});
  gpu.name = section.name("name", resolved.base_name.empty() ? "custom" : resolved.base_name);
  gpu.peak_flops = read_peaks(section.section("peak_flops"), path, reading);
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
  gpu.kernels = read_gpu_kernels(section.section("kernels"), section.path_of("kernels"), reading);
  gpu.measured = read_measured_kernels(section.section("measured"), section.path_of("measured"), reading);
  section.finish();
  return gpu;
}

// Of the cluster or of one of its groups, whose dotted path is `owner`; nothing where it could not be read.
// `gpu: h100_sxm` is short for `gpu: {from: h100_sxm}`.
std::optional<Gpu> read_gpu_of(const ConfigNode* node, const std::string& owner, const PresetSearch& search,
                               Reading& reading) {
  if (node == nullptr) {
    if (!reading.is_partial(owner))
      reading.problem(owner, fmt::format("missing required key 'gpu' in '{}'", owner),
                      "for example gpu: h100_sxm.");
    return std::nullopt;
  }
  ConfigNode gpu = *node;
  if (gpu.kind == ConfigNode::Kind::scalar) {
    ConfigNode name = gpu;
    name.key = "from";
    gpu.kind = ConfigNode::Kind::map;
    gpu.children = {name};
  }
  const ResolvedSection resolved = resolve_from(std::move(gpu), "gpus", search, reading);
  const std::string path = owner + ".gpu";
  if (!resolved.found) reading.partial_sections.emplace_back(path);
  Gpu read = read_gpu(resolved, path, reading);
  if (!resolved.found) return std::nullopt;
  return read;
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
  if (name == "intra_node") {
    const double share = read_intra_wiring(section, reading, cluster);
    if (share < 1 && !section.has("bandwidth")) {
      link.bandwidth *= share;
      reading.record(section.path_of("bandwidth"), fmt::format("{} GB/s", link.bandwidth / 1e9),
                     origin_of(reading.positions.at(section.path_of("gpu_nvlinks"))));
    }
  } else
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

// What the GPUs of a node talk over unless the config says: their NVLink. `owner`: as for read_gpu_of.
std::optional<std::string> nvlink_of(const Reading& reading, const std::string& owner, const Gpu& gpu) {
  if (gpu.name.empty()) return "1 GB/s";  // the GPU was refused: do not ask for its links as well
  if (gpu.nvlink_bandwidth <= 0) return std::nullopt;
  for (const EffectiveValue& value : reading.values)
    if (value.path == owner + ".gpu.nvlink_bandwidth") return value.text;
  return std::nullopt;
}

// Of a group of nodes; what connects them is the cluster's.
LinkClass read_group_link(const ConfigNode* node, const std::string& group, const Gpu& gpu,
                          Reading& reading) {
  LinkClass link;
  if (node == nullptr) {
    if (!reading.is_partial(group))
      reading.problem(group, fmt::format("missing required key 'intra_node' in '{}'", group),
                      "write it there, or cluster.intra_node for all: {latency: 2 us}.");
    return link;
  }
  SectionReader section(reading, node, group + ".intra_node");
  if (section.is_no_map()) return link;
  const std::optional<std::string> nvlink = nvlink_of(reading, group, gpu);
  if (!nvlink && !section.has("bandwidth")) {
    reading.problem(group, fmt::format("missing required key 'bandwidth' in '{}.intra_node'", group),
                    fmt::format("{} has no NVLink: write it, for example 12 GB/s.", gpu.name));
    section.ignore({"bandwidth"});
  } else {
    link.bandwidth = section.quantity("bandwidth", Unit::bytes_per_second, limits::bandwidth, nvlink);
  }
  link.latency_s = section.quantity("latency", Unit::seconds, limits::latency);
  link.efficiency = section.real("efficiency", limits::share, 1.0);
  link.sharp = section.boolean("sharp", false);
  section.finish();
  return link;
}

// The keys of a group over the cluster's own; nothing where neither is written.
std::optional<ConfigNode> laid_over(const ConfigNode* of_cluster, const ConfigNode* of_group) {
  if (of_cluster == nullptr && of_group == nullptr) return std::nullopt;
  if (of_cluster == nullptr) return *of_group;
  return of_group == nullptr ? *of_cluster : merged(*of_cluster, *of_group);
}

const ConfigNode* address_of(const std::optional<ConfigNode>& node) { return node ? &*node : nullptr; }

// Keys of cluster.intra_node that are not about the links of one group.
std::optional<ConfigNode> without_wiring(const ConfigNode* intra_node) {
  if (intra_node == nullptr) return std::nullopt;
  ConfigNode links = *intra_node;
  std::erase_if(links.children, [](const ConfigNode& key) {
    return key.key == "topology" || key.key == "nvlinks" || key.key == "gpu_nvlinks" || key.key == "relay" ||
           key.key == "nodes_per_domain";
  });
  return links;
}

// `cluster.node_groups`, a map of named groups: nodes, gpu and intra_node of each, the latter two laid over
// the cluster's own. First the GPUs of all, since the cluster's link falls back on the first one's NVLink.
class NodeGroupReader {
 public:
  NodeGroupReader(const ConfigNode* node, const PresetSearch& search, Reading& reading, Cluster& cluster)
      : node_(node), search_(search), reading_(reading), cluster_(cluster) {}

  bool has_groups() const { return node_ != nullptr; }

  void read_gpus(const ConfigNode* gpu_of_cluster) {
    if (node_ == nullptr) return;
    SectionReader groups(reading_, node_, "cluster.node_groups");
    if (groups.is_no_map()) return;
    if (node_->children.empty())
      reading_.problem("cluster.node_groups", "'cluster.node_groups' names no group",
                       "for example fast: {nodes: 1, gpu: v100_sxm2_32gb}.");
    for (const ConfigNode& child : node_->children) {
      if (is_entry_name(child.key)) {
        read_group(child.key, groups.section(child.key), gpu_of_cluster);
        continue;
      }
      groups.ignore({child.key});
      reading_.problems.push_back(
          {child.key_position,
           fmt::format("{} in 'cluster.node_groups' is no name for a group", in_quotes(child.key)),
           "letters, digits, _ and - are."});
    }
    groups.finish();
  }

  void read_links(const ConfigNode* intra_node) {
    const std::optional<ConfigNode> common = without_wiring(intra_node);
    for (std::size_t g = 0; g < sections_.size(); ++g) {
      NodeGroup& group = cluster_.node_groups[g];
      const ConfigNode* const own = sections_[g].section("intra_node");
      if (common || own != nullptr || cluster_.gpus_per_node > 1)
        group.intra_node = read_group_link(address_of(laid_over(address_of(common), own)), path_of(group),
                                           group.gpu, reading_);
      sections_[g].finish();
    }
    if (!cluster_.node_groups.empty()) cluster_.intra_node = cluster_.node_groups.front().intra_node;
  }

  // Who has the GPU that is Cluster::gpu.
  std::string owner_of_gpu(const ConfigNode* gpu_of_cluster) const {
    return gpu_of_cluster != nullptr || cluster_.node_groups.empty() ? "cluster"
                                                                     : path_of(cluster_.node_groups.front());
  }

 private:
  static std::string path_of(const NodeGroup& group) { return "cluster.node_groups." + group.name; }

  void read_group(const std::string& name, const ConfigNode* node, const ConfigNode* gpu_of_cluster) {
    NodeGroup group;
    group.name = name;
    const std::string path = path_of(group);
    SectionReader section(reading_, node, path);
    if (section.is_no_map()) return;
    group.nodes = section.integer("nodes", limits::nodes);
    const std::optional<ConfigNode> gpu = laid_over(gpu_of_cluster, section.section("gpu"));
    group.gpu = read_gpu_of(address_of(gpu), path, search_, reading_).value_or(Gpu{});
    cluster_.nodes += group.nodes;
    if (cluster_.node_groups.empty()) cluster_.gpu = group.gpu;
    cluster_.node_groups.push_back(std::move(group));
    sections_.push_back(std::move(section));
  }

  const ConfigNode* node_;
  const PresetSearch& search_;
  Reading& reading_;
  Cluster& cluster_;
  std::vector<SectionReader> sections_;  // by group
};

// With groups it is their sum, and need not be written.
void read_nodes(SectionReader& section, bool has_groups, Reading& reading, Cluster& cluster) {
  if (!has_groups) {
    cluster.nodes = section.integer("nodes", limits::nodes);
    return;
  }
  if (section.has("nodes")) {
    const std::int64_t written = section.integer("nodes", limits::nodes);
    if (written > 0 && written != cluster.nodes)
      reading.problem("cluster.nodes",
                      fmt::format("nodes is {}, and the node groups have {}", written, cluster.nodes),
                      "leave it out.");
  }
  section.ignore({"nodes"});
}

void read_reserved_memory(SectionReader& section, Reading& reading, Cluster& cluster) {
  cluster.reserved_bytes = bytes_in(section, "reserved_memory", limits::reserve, "2 GiB");
  const GpuKinds kinds(cluster);
  for (std::size_t kind = 0; kind < kinds.count(); ++kind)
    if (const Gpu& gpu = kinds.gpu(kind); gpu.memory_bytes > 0 && cluster.reserved_bytes >= gpu.memory_bytes)
      reading.problem("cluster.reserved_memory",
                      fmt::format("reserved_memory {:.1f} GiB leaves nothing of the {:.1f} GiB of {}",
                                  static_cast<double>(cluster.reserved_bytes) / 0x1p30,
                                  static_cast<double>(gpu.memory_bytes) / 0x1p30, gpu.name),
                      "2 GiB is the default.");
}

}  // namespace

void read_cluster(const ConfigNode* node, const PresetSearch& search, Reading& reading, Job& job) {
  if (node == nullptr) return reading.missing("cluster", "cluster: {from: dgx_h100, nodes: 8}");
  const std::size_t problems_before = reading.problems.size();
  ResolvedSection resolved = resolve_from(*node, "clusters", search, reading);
  resolved.node = with_nvidia_smi_topo(std::move(resolved.node), reading);
  if (!resolved.found) reading.partial_sections.emplace_back("cluster");
  Cluster& cluster = job.cluster;
  SectionReader section(reading, &resolved.node, "cluster");
  if (section.is_no_map()) return;
  section.ignore({"simrun"});
  cluster.name = section.name("name", resolved.base_name.empty() ? "custom" : resolved.base_name);
  const ConfigNode* const gpu = section.section("gpu");
  NodeGroupReader groups(section.section("node_groups"), search, reading, cluster);
  if (!groups.has_groups()) read_nodes(section, false, reading, cluster);
  cluster.gpus_per_node = section.integer("gpus_per_node", limits::gpus_per_node);
  cluster.nics_per_node = section.integer("nics_per_node", limits::nics_per_node,
                                          std::max<std::int64_t>(cluster.gpus_per_node, 1));
  if (gpu != nullptr || !groups.has_groups())
    cluster.gpu = read_gpu_of(gpu, "cluster", search, reading).value_or(Gpu{});
  groups.read_gpus(gpu);
  if (groups.has_groups()) read_nodes(section, true, reading, cluster);
  const ConfigNode* intra_node = section.section("intra_node");
  const ConfigNode* inter_node = section.section("inter_node");
  if (intra_node != nullptr || (cluster.gpus_per_node > 1 && !groups.has_groups()))
    cluster.intra_node =
        read_link(intra_node, "intra_node", nvlink_of(reading, groups.owner_of_gpu(gpu), cluster.gpu),
                  reading, cluster);
  if (inter_node != nullptr || cluster.nodes > 1)
    cluster.inter_node = read_link(inter_node, "inter_node", std::nullopt, reading, cluster);
  groups.read_links(intra_node);
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
  read_reserved_memory(section, reading, cluster);
  section.finish();
}

}  // namespace simrun
