// cluster.nvidia_smi_topo: the wiring of a node as `nvidia-smi topo -m` prints it.
#include <fmt/format.h>

#include <filesystem>

#include "configs/load_sections.h"
#include "configs/nvidia_smi_topo.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

void drop(ConfigNode& map, const std::string& key) {
  std::erase_if(map.children, [&](const ConfigNode& child) { return child.key == key; });
}

// A switch's GPUs are reached without the tree, which is left out unless the section asks for it.
bool needs_tree(const ConfigNode& cluster, const ConfigNode& matrix) {
  if (cluster.find("pcie") != nullptr) return true;
  const ConfigNode* const own = cluster.find("intra_node");
  const ConfigNode* topology = own == nullptr ? nullptr : own->find("topology");
  if (topology == nullptr) topology = matrix.find("intra_node")->find("topology");
  return topology->text != "nvswitch";
}

}  // namespace

ConfigNode with_nvidia_smi_topo(ConfigNode cluster, Reading& reading) {
  const ConfigNode* const written = cluster.find("nvidia_smi_topo");
  if (written == nullptr) return cluster;
  const ConfigNode name = *written;
  drop(cluster, "nvidia_smi_topo");
  if (name.kind != ConfigNode::Kind::scalar || name.text.empty()) {
    reading.problems.push_back(
        {name.position, fmt::format("'cluster.nvidia_smi_topo' must be a file, not {}", describe(name)),
         "it holds what `nvidia-smi topo -m` prints."});
    reading.partial_sections.emplace_back("cluster");
    return cluster;
  }
  const bool is_from_a_file = name.position.line > 0;  // not from --set
  const fs::path folder = fs::path(is_from_a_file ? name.position.file : reading.file).parent_path();
  const std::string path = (folder / name.text).lexically_normal().string();
  const TextFile file = read_text_file(path);
  if (!file.text) {
    reading.problems.push_back(
        {name.position, fmt::format("cannot read {}: {}", in_quotes(path), file.reason), ""});
    reading.partial_sections.emplace_back("cluster");
    return cluster;
  }
  reading.files.push_back(path);
  const std::optional<TopologyMatrix> matrix = parse_topology_matrix(*file.text, path, reading.problems);
  if (!matrix) {
    reading.partial_sections.emplace_back("cluster");
    return cluster;
  }
  ConfigNode base = cluster_of(*matrix);
  if (!needs_tree(cluster, base)) drop(base, "pcie");
  base.key = cluster.key;
  return merged(std::move(base), cluster);
}

}  // namespace simrun
