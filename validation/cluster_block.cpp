#include "validation/cluster_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace simrun {
namespace {

std::string gigabytes(double bytes_per_second) { return fmt::format("{:.10g} GB/s", bytes_per_second / 1e9); }
std::string microseconds(double seconds) { return fmt::format("{:.10g} us", seconds * 1e6); }

bool is_wired(const Cluster& cluster) {
  return cluster.wiring.topology != IntraNodeTopology::nvswitch || !cluster.wiring.pcie.empty();
}

class ClusterBlock {
 public:
  ClusterBlock(RowJob& made, const Cluster& preset, const std::vector<LinkGeneration>& generations)
      : made_(made), preset_(preset), generations_(generations) {
    const std::int64_t gpus = std::max<std::int64_t>(made.row.integer(Column::n_gpus).value_or(1), 1);
    const std::int64_t per_node =
        std::max<std::int64_t>(made.row.integer(Column::gpus_per_node).value_or(8), 1);
    gpus_per_node_ = gpus <= per_node ? gpus : gpus % per_node == 0 ? per_node : std::gcd(gpus, per_node);
    if (gpus_per_node_ < std::min(gpus, per_node))
      made.assumed.push_back(fmt::format("gpus_per_node {} instead of {}", gpus_per_node_, per_node));
    nodes_ = gpus / gpus_per_node_;
    network_ = NodeNetwork{scaled_nics(), preset.inter_node.bandwidth};
  }

  void write() {
    if (nodes_ > 1) read_network();
    const bool is_preset_node =
        gpus_per_node_ == preset_.gpus_per_node && network_.nics == preset_.nics_per_node;
    const bool is_part = gpus_per_node_ <= preset_.gpus_per_node && network_.nics <= preset_.nics_per_node;
    if (!is_part && is_wired(preset_)) write_plain_node();
    made_.job.set("cluster.nodes", fmt::format("{}", nodes_));
    if (!is_preset_node) {
      made_.job.set("cluster.gpus_per_node", fmt::format("{}", gpus_per_node_));
      made_.job.set("cluster.nics_per_node", fmt::format("{}", network_.nics));
    }
    if (nodes_ > 1 && network_.bytes_per_second != preset_.inter_node.bandwidth)
      made_.job.set("cluster.inter_node.bandwidth", gigabytes(network_.bytes_per_second));
    if (preset_.wiring.nodes_per_domain > 1)
      made_.job.set("cluster.intra_node.nodes_per_domain", fmt::format("{}", nodes_in_domain()));
  }

 private:
  // As many NICs per GPU as the preset has, if whole numbers say so.
  std::int64_t scaled_nics() const {
    const std::int64_t nics =
        preset_.nics_per_node * gpus_per_node_ / std::max<std::int64_t>(preset_.gpus_per_node, 1);
    return std::max<std::int64_t>(1, nics);
  }

  void read_network() {
    const std::optional<NodeNetwork> said =
        node_network_in(made_.row[Column::inter_link], gpus_per_node_, generations_, network_);
    if (said && (gpus_per_node_ % said->nics == 0 || said->nics % gpus_per_node_ == 0)) {
      network_ = *said;
      return;
    }
    const bool names_preset = made_.row[Column::inter_link].find("EFA") != std::string::npos;
    if (!names_preset) made_.assumed.push_back("inter_link of " + preset_.name);
  }

  // Racks whose nodes do not fill whole NVLink domains are taken as equal parts of them.
  std::int64_t nodes_in_domain() const {
    for (std::int64_t size = std::min(nodes_, preset_.wiring.nodes_per_domain); size > 1; --size)
      if (nodes_ % size == 0) return size;
    return 1;
  }

  void write_plain_node() {
    made_.job.erase("cluster.from");
    made_.job.set_if_absent("cluster.gpu", preset_.gpu.name);
    made_.job.set_if_absent("cluster.intra_node.bandwidth", gigabytes(preset_.intra_node.bandwidth));
    made_.job.set_if_absent("cluster.intra_node.latency", microseconds(preset_.intra_node.latency_s));
    made_.job.set_if_absent("cluster.intra_node.efficiency",
                            fmt::format("{}", preset_.intra_node.efficiency));
    made_.job.set("cluster.inter_node.bandwidth", gigabytes(network_.bytes_per_second));
    made_.job.set("cluster.inter_node.latency", microseconds(preset_.inter_node.latency_s));
    made_.job.set("cluster.inter_node.efficiency", fmt::format("{}", preset_.inter_node.efficiency));
  }

  RowJob& made_;
  const Cluster& preset_;
  const std::vector<LinkGeneration>& generations_;
  std::int64_t gpus_per_node_ = 1, nodes_ = 1;
  NodeNetwork network_;
};

}  // namespace

void write_cluster(RowJob& made, KnownPresets& presets, const std::vector<LinkGeneration>& generations) {
  if (!made.job.has("cluster.from")) return;
  ClusterBlock(made, presets.cluster(made.job.value("cluster.from")), generations).write();
}

}  // namespace simrun
