// The fabric section: how the nodes' NICs are connected.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/unused_keys.h"

namespace simrun {
namespace {

const std::vector<std::string> switch_keys = {
    "rail_optimized", "nodes_per_leaf", "spines", "oversubscription", "spine_latency", "routing", "pxn",
    "rail_only",      "planes"};
const std::vector<std::string> pod_keys = {"leaves_per_pod", "core_oversubscription", "core_latency"};
const std::vector<std::string> torus_keys = {"torus", "torus_wraps", "hop_latency"};

FabricTopology topology_of(const std::string& word) {
  if (word == "fat_tree") return FabricTopology::fat_tree;
  if (word == "dragonfly_plus") return FabricTopology::dragonfly_plus;
  if (word == "torus") return FabricTopology::torus;
  return word == "non_blocking" ? FabricTopology::non_blocking : FabricTopology::leaf_spine;
}

PathChoice routing_of(const std::string& word) {
  if (word == "static") return PathChoice::static_by_destination;
  return word == "spray" ? PathChoice::spray : PathChoice::ecmp;
}

void read_switches(SectionReader& section, std::optional<std::int64_t> unknown, Fabric& fabric) {
  fabric.rail_optimized = section.boolean("rail_optimized", true);
  fabric.nodes_per_leaf = section.integer("nodes_per_leaf", limits::nodes, unknown);
  fabric.spines = section.integer("spines", limits::spines, unknown);
  fabric.oversubscription = section.real("oversubscription", limits::oversubscription, 1.0);
  fabric.spine_latency_s = section.quantity("spine_latency", Unit::seconds, limits::latency, "0 us");
  fabric.routing = routing_of(section.word("routing", {{"ecmp", "static", "spray"}}, "ecmp"));
  fabric.rail_only = section.boolean("rail_only", false);
  fabric.pxn = section.boolean("pxn", fabric.rail_only);
  fabric.planes = section.integer("planes", limits::planes, 1);
}

void read_pods(SectionReader& section, std::optional<std::int64_t> unknown, Fabric& fabric) {
  fabric.leaves_per_pod = section.integer("leaves_per_pod", limits::nodes, unknown);
  if (fabric.topology == FabricTopology::fat_tree)
    fabric.cores = section.integer("cores", limits::cores, unknown);
  fabric.core_oversubscription = section.real("core_oversubscription", limits::oversubscription, 1.0);
  fabric.core_latency_s = section.quantity("core_latency", Unit::seconds, limits::latency, "0 us");
}

void read_torus(SectionReader& section, Reading& reading, Fabric& fabric) {
  if (!section.has("torus") && !reading.is_partial("cluster.fabric"))
    reading.problem("cluster.fabric", "missing required key 'torus' in 'cluster.fabric'",
                    "for example torus: [4, 4, 4], GPUs in each dimension.");
  if (section.has("torus"))
    fabric.torus = section.integer_list("torus", {1, limits::world}, {});
  else
    section.ignore({"torus"});
  fabric.torus_wraps = section.boolean("torus_wraps", true);
  fabric.hop_latency_s = section.quantity("hop_latency", Unit::seconds, limits::latency, "0 us");
}

// Of other topologies than the one that is written; where that was refused, of none.
void refuse_others(const std::string& topology, SectionReader& section, Reading& reading) {
  const auto refuse = [&](const std::vector<std::string>& keys, const std::vector<std::string>& of) {
    section.ignore(keys);
    if (topology.empty() || std::ranges::find(of, topology) != of.end()) return;
    refuse_unused({keys, "topology", topology, fmt::format("{}", fmt::join(of, ", "))}, section, reading);
  };
  refuse(switch_keys, {"leaf_spine", "fat_tree", "dragonfly_plus"});
  refuse(pod_keys, {"fat_tree", "dragonfly_plus"});
  refuse({"cores"}, {"fat_tree"});
  refuse(torus_keys, {"torus"});
}

}  // namespace

// A written section names its topology; keys of other topologies are left behind where one is chosen over a
// preset's switches, and refused where they are written with it.
void read_fabric(const ConfigNode* node, Reading& reading, Cluster& cluster) {
  SectionReader section(reading, node, "cluster.fabric");
  const WordRule rule{{"non_blocking", "leaf_spine", "fat_tree", "dragonfly_plus", "torus"}, {"dragonfly"}};
  const std::optional<std::string> fallback =
      node == nullptr ? std::optional<std::string>("non_blocking") : std::nullopt;
  const std::string topology = section.word("topology", rule, fallback);
  if (section.is_no_map()) return;
  refuse_others(topology, section, reading);
  if (topology == "non_blocking") return section.finish();
  // Beside a refused topology only what is written is judged.
  const std::optional<std::int64_t> unknown =
      topology.empty() ? std::optional<std::int64_t>(1) : std::nullopt;
  Fabric fabric{.topology = topology_of(topology)};
  if (fabric.topology == FabricTopology::torus) {
    read_torus(section, reading, fabric);
  } else {
    read_switches(section, unknown, fabric);
    if (fabric.topology != FabricTopology::leaf_spine) read_pods(section, unknown, fabric);
  }
  section.finish();
  cluster.fabric = fabric;
}

}  // namespace simrun
