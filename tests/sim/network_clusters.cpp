#include "tests/sim/network_clusters.h"

#include <fmt/format.h>

#include <map>
#include <regex>

namespace simrun::test {
namespace {

// std::regex_match; each pattern is compiled once.
bool matches(const std::string& text, std::smatch& match, const char* pattern) {
  static std::map<std::string, std::regex> compiled;
  return std::regex_match(text, match, compiled.try_emplace(pattern, pattern).first->second);
}

std::int64_t number(const std::smatch& match, std::size_t group) { return std::stoll(match[group].str()); }

Fabric leaves(FabricTopology topology, bool rails) {
  Fabric fabric{topology, rails, 2, 2, 1, 2e-6};
  fabric.leaves_per_pod = 2;
  fabric.cores = topology == FabricTopology::fat_tree ? 4 : 0;
  fabric.core_latency_s = 3e-6;
  return fabric;
}

Cluster with_fabric(FabricTopology topology, bool rails, std::int64_t nodes = 12) {
  Cluster cluster = plain_cluster(nodes, 2);
  cluster.fabric = leaves(topology, rails);
  return cluster;
}

Cluster torus(std::vector<std::int64_t> sizes, bool wraps, std::int64_t nodes) {
  Cluster cluster = plain_cluster(nodes, 4);
  cluster.fabric.topology = FabricTopology::torus;
  cluster.fabric.torus = std::move(sizes);
  cluster.fabric.torus_wraps = wraps;
  cluster.fabric.hop_latency_s = 0.5e-6;
  return cluster;
}

// The other end of a torus link out of `gpu`.
std::int64_t neighbour(const Cluster& cluster, std::int64_t gpu, char axis) {
  std::int64_t stride = 1;
  std::vector<std::int64_t> sizes = cluster.fabric.torus;
  sizes.resize(3, 1);
  for (int d = 0; d < axis - 'x'; ++d) stride *= sizes[static_cast<std::size_t>(d)];
  const std::int64_t size = sizes[static_cast<std::size_t>(axis - 'x')], at = gpu / stride % size;
  return gpu + ((at + 1) % size - at) * stride;
}

LinkEnds turned(LinkEnds ends, bool back) { return back ? LinkEnds{ends.to, ends.from} : ends; }

LinkEnds inside_node(const Cluster& cluster, std::int64_t node, const std::string& rest) {
  std::smatch m;
  const auto gpu = [&](std::int64_t of) { return fmt::format("gpu{}", node * cluster.gpus_per_node + of); };
  const auto on_switch = [&](std::int64_t of) { return fmt::format("node{}.pcie{}", node, of); };
  const PcieTree& pcie = cluster.wiring.pcie;
  if (matches(rest, m, R"(gpu(\d+)\.nvlink_(tx|rx))"))
    return turned({gpu(number(m, 1)), fmt::format("domain{}", node / cluster.wiring.nodes_per_domain)},
                  m[2] == "rx");
  if (matches(rest, m, R"(gpu(\d+)\.nvlink_gpu(\d+))")) return {gpu(number(m, 1)), gpu(number(m, 2))};
  if (matches(rest, m, R"(gpu(\d+)\.pcie_(tx|rx))"))
    return turned(
        {gpu(number(m, 1)), on_switch(pcie.gpu_switches.at(static_cast<std::size_t>(number(m, 1))))},
        m[2] == "rx");
  if (matches(rest, m, R"(nic(\d+)\.pcie_(tx|rx))"))
    return turned({fmt::format("node{}.nic{}", node, m[1].str()),
                   on_switch(pcie.nic_switches.at(static_cast<std::size_t>(number(m, 1))))},
                  m[2] == "rx");
  if (matches(rest, m, R"(pcie(\d+)\.(up|down))"))
    return turned({on_switch(number(m, 1)),
                   fmt::format("node{}.socket{}", node,
                               pcie.switch_sockets.at(static_cast<std::size_t>(number(m, 1))))},
                  m[2] == "down");
  if (matches(rest, m, R"((socket\d+)\.(socket\d+))"))
    return {fmt::format("node{}.{}", node, m[1].str()), fmt::format("node{}.{}", node, m[2].str())};
  return {};
}

LinkEnds of_nic(const Topology& topology, const Cluster& cluster, const std::smatch& m) {
  const std::string nic = fmt::format("node{}.nic{}", m[1].str(), m[2].str());
  std::string leaf = "network";
  if (topology.switches() != nullptr) {
    const bool rails = cluster.fabric.rail_optimized;
    leaf = fmt::format("{}{}leaf{}", m[3].str(), rails ? fmt::format("rail{}.", m[2].str()) : std::string(),
                       number(m, 1) / cluster.fabric.nodes_per_leaf);
  }
  return turned({nic, leaf}, m[4] == "rx");
}

}  // namespace

Cluster plain_cluster(std::int64_t nodes, std::int64_t gpus) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus;
  cluster.nics_per_node = gpus;
  cluster.intra_node = {125e9, 1e-6, 0.8};
  cluster.inter_node = {12.5e9, 5e-6, 0.8};
  return cluster;
}

Cluster cube_mesh_cluster() {
  Cluster cluster = plain_cluster(1, 8);
  cluster.intra_node = {150e9, 2e-6, 1};
  cluster.wiring.topology = IntraNodeTopology::nvlink_mesh;
  cluster.wiring.nvlinks = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 2},
                            {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
                            {0, 4, 2}, {1, 5, 2}, {2, 6, 1}, {3, 7, 1}};
  return cluster;
}

PcieTree two_sockets() { return {{12.5e9, 2e-6, 0.8}, {10e9, 1e-6, 0.8}, {0, 0, 1, 1}, {0, 1}, {0, 1}}; }

std::vector<NamedCluster> every_network() {
  std::vector<NamedCluster> all;
  all.push_back({"switch", plain_cluster(3, 4)});
  all.push_back({"mesh", cube_mesh_cluster()});
  Cluster tree = plain_cluster(2, 4);
  tree.nics_per_node = 2;
  tree.wiring.topology = IntraNodeTopology::pcie;
  tree.wiring.pcie = two_sockets();
  all.push_back({"pcie", tree});
  tree.wiring.gpu_direct = false;
  all.push_back({"pcie without gpu_direct", tree});
  Cluster domain = plain_cluster(6, 4);
  domain.wiring.nodes_per_domain = 3;
  all.push_back({"domain", domain});
  for (const bool rails : {true, false})
    for (const PathChoice routing : {PathChoice::ecmp, PathChoice::static_by_destination, PathChoice::spray})
      for (const auto& [name, topology] : {std::pair{"leaf_spine", FabricTopology::leaf_spine},
                                           std::pair{"fat_tree", FabricTopology::fat_tree},
                                           std::pair{"dragonfly_plus", FabricTopology::dragonfly_plus}}) {
        Cluster cluster = with_fabric(topology, rails);
        cluster.fabric.routing = routing;
        all.push_back(
            {fmt::format("{} rails {} routing {}", name, rails, static_cast<int>(routing)), cluster});
      }
  Cluster planes = with_fabric(FabricTopology::fat_tree, true);
  planes.fabric.planes = 2;
  all.push_back({"planes", planes});
  Cluster pxn = with_fabric(FabricTopology::leaf_spine, true);
  pxn.fabric.pxn = pxn.fabric.rail_only = true;
  all.push_back({"pxn", pxn});
  all.push_back({"torus 4 x 4 x 2", torus({4, 4, 2}, true, 8)});
  all.push_back({"torus 5 x 4", torus({5, 4}, true, 5)});
  all.push_back({"mesh 3 x 4 x 1", torus({3, 4, 1}, false, 3)});
  return all;
}

std::vector<std::string> names_of(const Topology& topology, const Route& route) {
  std::vector<std::string> names;
  for (const LinkIndex link : route.links()) names.push_back(topology.name(link));
  return names;
}

LinkEnds ends_of(const Topology& topology, const Cluster& cluster, LinkIndex link) {
  const std::string name = topology.name(link);
  std::smatch m;
  if (matches(name, m, R"(gpu(\d+)\.([xyz])_(forward|back))"))
    return turned({fmt::format("gpu{}", m[1].str()),
                   fmt::format("gpu{}", neighbour(cluster, number(m, 1), m[2].str()[0]))},
                  m[3] == "back");
  if (matches(name, m, R"(node(\d+)\.nic(\d+)\.(plane\d+\.)?(tx|rx))")) return of_nic(topology, cluster, m);
  if (matches(name, m, R"(node(\d+)\.(.*))")) return inside_node(cluster, number(m, 1), m[2].str());
  const std::int64_t pod_leaves =
      cluster.fabric.topology == FabricTopology::leaf_spine ? 1 << 20 : cluster.fabric.leaves_per_pod;
  if (matches(name, m, R"((plane\d+\.)?(rail\d+\.)?leaf(\d+)\.spine(\d+)\.(up|down))"))
    return turned({fmt::format("{}{}leaf{}", m[1].str(), m[2].str(), m[3].str()),
                   fmt::format("{}pod{}.spine{}", m[1].str(), number(m, 3) / pod_leaves, m[4].str())},
                  m[5] == "down");
  if (matches(name, m, R"((plane\d+\.)?(pod\d+\.spine\d+)\.core(\d+)\.(up|down))"))
    return turned({m[1].str() + m[2].str(), fmt::format("{}core{}", m[1].str(), m[3].str())}, m[4] == "down");
  if (matches(name, m, R"((pod\d+)\.(spine\d+)\.(pod\d+))"))
    return {fmt::format("{}.{}", m[1].str(), m[2].str()), fmt::format("{}.{}", m[3].str(), m[2].str())};
  return {};
}

}  // namespace simrun::test
