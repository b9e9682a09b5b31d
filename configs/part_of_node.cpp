#include "configs/part_of_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "configs/load_sections.h"

namespace simrun {
namespace {

bool is_written(const Reading& reading, const std::string& path) { return reading.positions.contains(path); }

// Written in another file than the number of GPUs or NICs that it should be as long as.
bool is_inherited(const Reading& reading, const std::string& list, const std::string& count) {
  return is_written(reading, list) && is_written(reading, count) &&
         reading.positions.at(list).file != reading.positions.at(count).file;
}

void write_again(const std::string& path, std::string text, Reading& reading) {
  reading.record(path, std::move(text), origin_of(reading.positions.at("cluster.gpus_per_node")));
}

std::int64_t most_links(const Cluster& cluster) {
  std::vector<std::int64_t> links(static_cast<std::size_t>(cluster.gpus_per_node));
  for (const NvlinkPair& pair : cluster.wiring.nvlinks)
    for (const std::int64_t gpu : {pair.first, pair.second})
      if (const auto at = static_cast<std::size_t>(gpu); at < links.size()) links[at] += pair.links;
  return *std::ranges::max_element(links);
}

void keep_links(Cluster& cluster, Reading& reading) {
  std::vector<NvlinkPair>& pairs = cluster.wiring.nvlinks;
  Cluster whole = cluster;
  for (const NvlinkPair& pair : pairs)
    whole.gpus_per_node = std::max(whole.gpus_per_node, std::max(pair.first, pair.second) + 1);
  if (whole.gpus_per_node == cluster.gpus_per_node) return;
  std::erase_if(pairs, [&](const NvlinkPair& pair) { return pair.second >= cluster.gpus_per_node; });
  if (pairs.empty()) {
    if (cluster.gpus_per_node > 1) return;  // reported as a mesh without links
    cluster.wiring.topology = IntraNodeTopology::nvswitch;
    reading.take("cluster.intra_node.nvlinks");
    reading.take("cluster.intra_node.relay");
    return write_again("cluster.intra_node.topology", "nvswitch", reading);
  }
  std::vector<std::string> texts;
  texts.reserve(pairs.size());
  for (const NvlinkPair& pair : pairs) texts.push_back(text_of(pair));
  write_again("cluster.intra_node.nvlinks", fmt::format("[{}]", fmt::join(texts, ", ")), reading);
  const std::string bandwidth = "cluster.intra_node.bandwidth";
  const bool is_own =
      reading.positions.contains(bandwidth) && !is_inherited(reading, bandwidth, "cluster.gpus_per_node");
  if (is_own) return;
  cluster.intra_node.bandwidth = cluster.intra_node.bandwidth * static_cast<double>(most_links(cluster)) /
                                 static_cast<double>(most_links(whole));
  write_again(bandwidth, fmt::format("{:.10g} GB/s", cluster.intra_node.bandwidth / 1e9), reading);
}

void keep_switches(std::vector<std::int64_t>& switches, std::int64_t count, const std::string& list,
                   const std::string& counted_by, Reading& reading) {
  if (!is_inherited(reading, list, counted_by) || count < 1 ||
      switches.size() <= static_cast<std::size_t>(count))
    return;
  switches.resize(static_cast<std::size_t>(count));
  write_again(list, fmt::format("[{}]", fmt::join(switches, ", ")), reading);
}

}  // namespace

void keep_part_of_node(Cluster& cluster, Reading& reading) {
  const std::string gpus = "cluster.gpus_per_node", nics = "cluster.nics_per_node";
  if (cluster.gpus_per_node < 1) return;
  if (cluster.wiring.topology == IntraNodeTopology::nvlink_mesh &&
      is_inherited(reading, "cluster.intra_node.nvlinks", gpus))
    keep_links(cluster, reading);
  PcieTree& pcie = cluster.wiring.pcie;
  keep_switches(pcie.gpu_switches, cluster.gpus_per_node, "cluster.pcie.gpu_switches", gpus, reading);
  keep_switches(pcie.nic_switches, cluster.nics_per_node, "cluster.pcie.nic_switches", nics, reading);
}

}  // namespace simrun
