// How a node's GPUs and NICs are connected: keys of cluster.intra_node, and cluster.pcie.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/unused_keys.h"

namespace simrun {
namespace {

std::string text_of(const NvlinkPair& pair) {
  return pair.links == 1 ? fmt::format("{}-{}", pair.first, pair.second)
                         : fmt::format("{}-{}x{}", pair.first, pair.second, pair.links);
}

void read_pairs(SectionReader& section, Reading& reading, NodeWiring& wiring) {
  const ConfigNode* const list = section.section("nvlinks");
  const std::string path = section.path_of("nvlinks"), example = "for example nvlinks: [0-1, 0-2, 1-2x2].";
  if (list == nullptr) {
    if (!reading.is_partial("cluster"))
      reading.problem("cluster.intra_node", "missing required key 'nvlinks' in 'cluster.intra_node'",
                      example);
    return;
  }
  reading.positions[path] = list->position;
  if (list->kind != ConfigNode::Kind::sequence || list->children.empty())
    return reading.problem(
        path,
        fmt::format("'{}' must be a list of pairs of GPUs, not {}", path,
                    list->kind == ConfigNode::Kind::sequence ? "an empty list" : describe(*list)),
        example);
  std::vector<std::string> texts;
  for (const ConfigNode& child : list->children) {
    const std::optional<NvlinkPair> pair =
        child.kind == ConfigNode::Kind::scalar ? parse_nvlinks(child.text) : std::nullopt;
    if (!pair) {
      reading.problems.push_back({child.position,
                                  fmt::format("'{}': {} is no pair of GPUs", path, describe(child)),
                                  "0-3x2 are two links between GPUs 0 and 3."});
      continue;
    }
    wiring.nvlinks.push_back(*pair);
    texts.push_back(text_of(*pair));
  }
  reading.record(path, fmt::format("[{}]", fmt::join(texts, ", ")), origin_of(list->position));
}

// Of the GPU's NVLinks, the part that the node uses.
double read_nvlink_share(SectionReader& section, Reading& reading, const NodeWiring& wiring) {
  const std::int64_t used = most_nvlinks(wiring.nvlinks);
  if (!section.has("gpu_nvlinks") || used == 0) return 1;
  const std::int64_t all = section.integer("gpu_nvlinks", limits::nvlinks);
  if (all >= used) return static_cast<double>(used) / static_cast<double>(all);
  if (all > 0)
    reading.problem(section.path_of("gpu_nvlinks"),
                    fmt::format("a GPU has {} NVLinks, and 'nvlinks' gives one of them {}", all, used),
                    "gpu_nvlinks counts all, also those that lead nowhere.");
  return 1;
}

// A GPU's PCIe link is what intra_node describes where GPUs have nothing else.
void read_pcie_link(SectionReader& section, const Reading& reading, Cluster& cluster) {
  const bool is_intra_node = cluster.wiring.topology == IntraNodeTopology::pcie;
  const auto written = [&](const char* key) -> std::optional<std::string> {
    for (const EffectiveValue& value : reading.values)
      if (is_intra_node && value.path == std::string("cluster.intra_node.") + key) return value.text;
    return std::nullopt;
  };
  LinkClass& link = cluster.wiring.pcie.link;
  link.bandwidth =
      section.quantity("bandwidth", Unit::bytes_per_second, limits::bandwidth, written("bandwidth"));
  link.latency_s = section.quantity("latency", Unit::seconds, limits::latency, written("latency"));
  link.efficiency =
      section.real("efficiency", limits::share, is_intra_node ? cluster.intra_node.efficiency : 1.0);
}

void read_socket_link(SectionReader& section, PcieTree& pcie) {
  bool has_sockets = false;
  for (const std::int64_t socket : pcie.switch_sockets) has_sockets |= socket != pcie.switch_sockets.front();
  if (has_sockets) {
    pcie.socket_link.bandwidth =
        section.quantity("socket_bandwidth", Unit::bytes_per_second, limits::bandwidth);
    pcie.socket_link.latency_s = section.quantity("socket_latency", Unit::seconds, limits::latency, "0 us");
    pcie.socket_link.efficiency = section.real("socket_efficiency", limits::share, 1.0);
  }
  section.ignore({"socket_bandwidth", "socket_latency", "socket_efficiency"});
}

}  // namespace

std::optional<NvlinkPair> parse_nvlinks(const std::string& text) {
  const std::size_t dash = text.find('-'), times = text.find('x');
  if (dash == std::string::npos) return std::nullopt;
  const IntegerRange gpu{0, limits::gpus_per_node.most};
  const auto first = parse_integer(text.substr(0, dash), gpu).value;
  const auto second =
      parse_integer(text.substr(dash + 1, times == std::string::npos ? times : times - dash - 1), gpu).value;
  const auto links = times == std::string::npos
                         ? std::optional<std::int64_t>(1)
                         : parse_integer(text.substr(times + 1), limits::nvlinks).value;
  if (!first || !second || !links || *first == *second) return std::nullopt;
  return NvlinkPair{std::min(*first, *second), std::max(*first, *second), *links};
}

std::int64_t most_nvlinks(const std::vector<NvlinkPair>& pairs) {
  std::map<std::int64_t, std::int64_t> links;
  for (const NvlinkPair& pair : pairs)
    for (const std::int64_t gpu : {pair.first, pair.second}) links[gpu] += pair.links;
  std::int64_t most = 0;
  for (const auto& [gpu, count] : links) most = std::max(most, count);
  return most;
}

double read_intra_wiring(SectionReader& section, Reading& reading, Cluster& cluster) {
  double share = 1;
  NodeWiring& wiring = cluster.wiring;
  const std::string topology = section.word("topology", {{"nvswitch", "nvlink_mesh", "pcie"}}, "nvswitch");
  if (topology == "pcie") wiring.topology = IntraNodeTopology::pcie;
  if (topology == "nvlink_mesh") {
    wiring.topology = IntraNodeTopology::nvlink_mesh;
    read_pairs(section, reading, wiring);
    wiring.relay = section.boolean("relay", true);
    share = read_nvlink_share(section, reading, wiring);
  }
  if (topology == "nvswitch") wiring.nodes_per_domain = section.integer("nodes_per_domain", limits::nodes, 1);
  const auto refuse = [&](std::vector<std::string> unused, const char* belongs_to) {
    section.ignore(unused);
    if (!topology.empty() && topology != belongs_to)
      refuse_unused({std::move(unused), "topology", topology, belongs_to}, section, reading);
  };
  refuse({"nvlinks", "gpu_nvlinks", "relay"}, "nvlink_mesh");
  refuse({"nodes_per_domain"}, "nvswitch");
  return share;
}

void read_pcie(const ConfigNode* node, Reading& reading, Cluster& cluster) {
  if (node == nullptr) return;
  PcieTree& pcie = cluster.wiring.pcie;
  SectionReader section(reading, node, "cluster.pcie");
  if (section.is_no_map()) return;
  read_pcie_link(section, reading, cluster);
  const IntegerRange number{0, limits::gpus_per_node.most};
  for (const auto& [key, list] :
       {std::pair{"gpu_switches", &pcie.gpu_switches}, std::pair{"nic_switches", &pcie.nic_switches},
        std::pair{"switch_sockets", &pcie.switch_sockets}}) {
    const bool is_written = section.has(key);
    if (!is_written && !reading.is_partial("cluster"))
      reading.problem("cluster.pcie", fmt::format("missing required key '{}' in 'cluster.pcie'", key));
    if (is_written)
      *list = section.integer_list(key, number, {});
    else
      section.ignore({key});
  }
  read_socket_link(section, pcie);
  section.finish();
}

}  // namespace simrun
