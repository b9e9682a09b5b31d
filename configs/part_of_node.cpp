#include "configs/part_of_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/numbers.h"

namespace simrun {
namespace {

std::optional<std::int64_t> count_in(const ConfigNode& section, const char* key, IntegerRange range) {
  const ConfigNode* node = section.find(key);
  if (node == nullptr || node->kind != ConfigNode::Kind::scalar) return std::nullopt;
  return parse_integer(node->text, range).value;
}

bool has(const ConfigNode& section, const char* part, const char* key) {
  const ConfigNode* node = section.find(part);
  return node != nullptr && node->find(key) != nullptr;
}

void put(ConfigNode& section, const char* key, std::string text, const SourcePosition& position) {
  ConfigNode value;
  value.kind = ConfigNode::Kind::scalar;
  value.key = key;
  value.key_position = value.position = position;
  value.text = std::move(text);
  std::erase_if(section.children, [&](const ConfigNode& child) { return child.key == key; });
  section.children.push_back(std::move(value));
}

// Nothing where a pair cannot be read, which the loader reports.
std::optional<std::vector<NvlinkPair>> pairs_in(const ConfigNode& list) {
  std::vector<NvlinkPair> pairs;
  pairs.reserve(list.children.size());
  for (const ConfigNode& child : list.children) {
    const std::optional<NvlinkPair> pair = parse_nvlinks(child.text);
    if (!pair) return std::nullopt;
    pairs.push_back(*pair);
  }
  return pairs;
}

// GPUs without a link among them: one GPU needs none, others have PCIe, whose link is then the node's.
void leave_mesh(ConfigNode& base, ConfigNode& intra, std::int64_t gpus, const SourcePosition& position) {
  const ConfigNode* pcie = base.find("pcie");
  if (gpus > 1 && pcie == nullptr) return;  // the empty list is reported
  std::erase_if(intra.children,
                [](const ConfigNode& child) { return child.key == "nvlinks" || child.key == "relay"; });
  put(intra, "topology", gpus > 1 ? "pcie" : "nvswitch", position);
  for (const char* key : {"bandwidth", "latency", "efficiency"})
    if (const ConfigNode* of_pcie = gpus > 1 ? pcie->find(key) : nullptr)
      put(intra, key, of_pcie->text, of_pcie->position);
}

void keep_links(ConfigNode& base, std::int64_t gpus, const SourcePosition& position) {
  ConfigNode* intra = base.find("intra_node");
  ConfigNode* list = intra == nullptr ? nullptr : intra->find("nvlinks");
  if (list == nullptr) return;
  const std::optional<std::vector<NvlinkPair>> whole = pairs_in(*list);
  if (!whole) return;
  std::vector<NvlinkPair> part = *whole;
  std::erase_if(part, [&](const NvlinkPair& pair) { return pair.second >= gpus; });
  std::erase_if(list->children,
                [&](const ConfigNode& child) { return parse_nvlinks(child.text)->second >= gpus; });
  list->position = position;
  if (part.empty()) return leave_mesh(base, *intra, gpus, position);
  const std::int64_t links = most_nvlinks(part), before = most_nvlinks(*whole);
  const ConfigNode* bandwidth = intra->find("bandwidth");
  if (bandwidth == nullptr) {
    if (intra->find("gpu_nvlinks") != nullptr) return;
    const SourcePosition of_preset = list->key_position;
    put(*intra, "gpu_nvlinks", fmt::format("{}", before), position);
    intra->children.back().key_position = of_preset;  // nobody wrote it
    return;
  }
  const Parsed<Quantity> of_whole =
      parse_quantity(bandwidth->text, Unit::bytes_per_second, limits::bandwidth);
  if (!of_whole.value) return;
  const double of_part = of_whole.value->value * static_cast<double>(links) / static_cast<double>(before);
  put(*intra, "bandwidth", fmt::format("{} GB/s", of_part / 1e9), position);
}

// `key` of the pcie section: one entry for each of `count` GPUs or NICs.
void keep_switches(ConfigNode& base, const char* key, std::int64_t count, const SourcePosition& position) {
  ConfigNode* pcie = base.find("pcie");
  ConfigNode* list = pcie == nullptr ? nullptr : pcie->find(key);
  const auto wanted = static_cast<std::size_t>(count);
  if (list == nullptr || list->children.size() <= wanted) return;
  list->children.resize(wanted);
  list->position = position;
}

}  // namespace

ConfigNode part_of_node(ConfigNode base, const ConfigNode& over) {
  const auto whole = count_in(base, "gpus_per_node", limits::gpus_per_node);
  const auto gpus = count_in(over, "gpus_per_node", limits::gpus_per_node);
  const bool is_part = whole && gpus && *gpus < *whole && base.find("node_groups") == nullptr &&
                       over.find("node_groups") == nullptr;
  const auto own_nics = count_in(over, "nics_per_node", limits::nics_per_node);
  if (is_part) {
    const SourcePosition& position = over.find("gpus_per_node")->position;
    if (!has(over, "intra_node", "nvlinks")) keep_links(base, *gpus, position);
    if (!has(over, "pcie", "gpu_switches")) keep_switches(base, "gpu_switches", *gpus, position);
    // A NIC per GPU is the default.
    const bool is_nic_per_gpu = base.find("nics_per_node") == nullptr && !own_nics;
    if (is_nic_per_gpu && !has(over, "pcie", "nic_switches"))
      keep_switches(base, "nic_switches", *gpus, position);
  }
  if (own_nics && !has(over, "pcie", "nic_switches"))
    keep_switches(base, "nic_switches", *own_nics, over.find("nics_per_node")->position);
  return base;
}

}  // namespace simrun
