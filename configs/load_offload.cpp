// The offload section, and the host of a cluster.
#include <fmt/format.h>

#include <cmath>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

OffloadTarget target(SectionReader& section, const std::string& key, const WordRule& rule) {
  const std::string word = section.word(key, rule, "none");
  return word == "cpu" ? OffloadTarget::cpu : word == "nvme" ? OffloadTarget::nvme : OffloadTarget::none;
}

}  // namespace

void read_offload(const ConfigNode* node, Reading& reading, Job& job) {
  if (node == nullptr) return;
  Offload& offload = job.offload;
  SectionReader section(reading, node, "offload");
  if (section.is_no_map()) return;
  const WordRule any{{"none", "cpu", "nvme"}, {}};
  offload.optimizer = target(section, "optimizer", any);
  if (offload.optimizer != OffloadTarget::none || section.has("optimizer_fraction"))
    offload.optimizer_fraction = section.real("optimizer_fraction", limits::offloaded, 1.0);
  section.ignore({"optimizer_fraction"});
  offload.parameters = target(section, "parameters", any);
  offload.activations = target(section, "activations", {{"none", "cpu"}, {"nvme"}});
  if (section.has("activation_layers"))
    offload.activation_layers = static_cast<int>(section.integer("activation_layers", limits::layers));
  section.ignore({"activation_layers"});
  section.finish();
}

void read_host(const ConfigNode* node, Reading& reading, Cluster& cluster) {
  if (node == nullptr) return;
  Host& host = cluster.host;
  SectionReader section(reading, node, "cluster.host");
  if (section.is_no_map()) return;
  host.memory_bytes = std::llround(section.quantity("memory", Unit::bytes, limits::memory));
  host.memory_bandwidth = section.quantity("memory_bandwidth", Unit::bytes_per_second, limits::bandwidth);
  host.memory_efficiency = section.real("memory_efficiency", limits::share, 1.0);
  host.flops = section.quantity("flops", Unit::flops_per_second, limits::flops);
  host.pcie_bandwidth = section.quantity("pcie_bandwidth", Unit::bytes_per_second, limits::bandwidth);
  host.pcie_efficiency = section.real("pcie_efficiency", limits::share, 1.0);
  host.nvme_bytes = std::llround(section.quantity("nvme", Unit::bytes, limits::reserve, "0 GiB"));
  const auto of_drives = [&](const char* key) {
    section.ignore({key});
    if (host.nvme_bytes == 0 && !section.has(key)) return 0.0;
    return section.quantity(key, Unit::bytes_per_second, limits::bandwidth);
  };
  host.nvme_read_bandwidth = of_drives("nvme_read_bandwidth");
  host.nvme_write_bandwidth = of_drives("nvme_write_bandwidth");
  section.finish();
}

}  // namespace simrun
