// cluster.collectives: what algorithms and protocols cost, and which of them are taken.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

constexpr IntegerRange channels = {1, 1024};

CollectivePace read_pace(const ConfigNode* node, const std::string& path, Reading& reading) {
  CollectivePace pace;
  SectionReader section(reading, node, path);
  if (section.is_no_map()) return pace;
  const auto seconds = [&](const char* key) {
    return section.quantity(key, Unit::seconds, limits::latency, "0 us");
  };
  const auto bandwidth = [&](const char* key) {
    return section.quantity(key, Unit::bytes_per_second, limits::optional_bandwidth, "0 GB/s");
  };
  pace.base_s = seconds("base");
  pace.nvlink_s = seconds("nvlink");
  pace.pcie_s = seconds("pcie");
  pace.network_s = seconds("network");
  pace.rank_s = seconds("per_rank");
  pace.efficiency = section.real("efficiency", limits::share, 1.0);
  pace.reduction_efficiency = section.real("reduction_efficiency", limits::share, 1.0);
  pace.channel_bandwidth = bandwidth("channel_bandwidth");
  pace.one_node_bandwidth = bandwidth("one_node_bandwidth");
  pace.two_nodes_bandwidth = bandwidth("two_nodes_bandwidth");
  pace.more_nodes_bandwidth = bandwidth("more_nodes_bandwidth");
  section.finish();
  return pace;
}

void read_paces(const ConfigNode* node, Reading& reading, CollectivesConfig& config) {
  if (node == nullptr) return;
  SectionReader algorithms(reading, node, "cluster.collectives.algorithms");
  if (algorithms.is_no_map()) return;
  for (const std::string& algorithm : collective_algorithm_words()) {
    if (algorithm == "auto") continue;
    const ConfigNode* const of = algorithms.section(algorithm);
    if (of == nullptr) continue;
    SectionReader protocols(reading, of, algorithms.path_of(algorithm));
    if (protocols.is_no_map()) continue;
    for (const std::string& protocol : collective_protocol_words())
      if (const ConfigNode* pace = protocol == "auto" ? nullptr : protocols.section(protocol))
        config.paces[{*collective_algorithm_of(algorithm), *collective_protocol_of(protocol)}] =
            read_pace(pace, protocols.path_of(protocol), reading);
    protocols.finish();
  }
  algorithms.finish();
}

std::vector<std::string> words_of(const std::vector<CollectiveAlgorithm>& algorithms) {
  std::vector<std::string> words{"auto"};
  for (const CollectiveAlgorithm algorithm : algorithms) words.push_back(to_string(algorithm));
  return words;
}

CollectiveChoice read_choice(SectionReader& section, const std::vector<std::string>& algorithms) {
  CollectiveChoice choice;
  const std::string algorithm = section.word("algorithm", {algorithms}, "auto");
  const std::string protocol = section.word("protocol", {collective_protocol_words()}, "auto");
  choice.algorithm = collective_algorithm_of(algorithm).value_or(CollectiveAlgorithm::automatic);
  choice.protocol = collective_protocol_of(protocol).value_or(CollectiveProtocol::automatic);
  return choice;
}

// Reductions in switches need switches that reduce.
void check_switches(const Cluster& cluster, const CollectiveChoice& choice, const std::string& path,
                    Reading& reading) {
  using enum CollectiveAlgorithm;
  const bool in_node = choice.algorithm == nvls || choice.algorithm == nvls_tree;
  const bool in_fabric = choice.algorithm == collnet_direct || choice.algorithm == collnet_chain;
  if ((!in_node || cluster.intra_node.sharp) && (!in_fabric || cluster.inter_node.sharp)) return;
  const std::string link = in_node ? "intra_node" : "inter_node";
  reading.problem(
      path,
      fmt::format("{} reduces in switches, which those of {} do not", to_string(choice.algorithm), link),
      fmt::format("cluster.{}.sharp: true says that they do.", link));
}

// A protocol that no algorithm of the table has cannot be taken.
void check_protocol(const CollectivesConfig& config, const CollectiveChoice& choice, const std::string& path,
                    Reading& reading) {
  if (choice.protocol == CollectiveProtocol::automatic) return;
  std::vector<std::string> known;
  for (const auto& [of, pace] : config.paces)
    if (choice.algorithm == CollectiveAlgorithm::automatic || of.algorithm == choice.algorithm) {
      if (of.protocol == choice.protocol) return;
      known.push_back(to_string(of.protocol));
    }
  if (config.paces.empty() && choice.protocol == CollectiveProtocol::simple) return;
  const std::string whose = choice.algorithm == CollectiveAlgorithm::automatic
                                ? "collectives.algorithms"
                                : "collectives.algorithms." + to_string(choice.algorithm);
  reading.problem(path,
                  fmt::format("cluster.{} says nothing of protocol {}", whose, to_string(choice.protocol)),
                  config.paces.empty() ? "collectives: {from: nccl} does."
                  : known.empty()      ? ""
                                       : fmt::format("it has {}.", known.front()));
}

void check(const Cluster& cluster, const CollectiveChoice& choice, const std::string& path,
           Reading& reading) {
  check_switches(cluster, choice, path + ".algorithm", reading);
  check_protocol(cluster.collectives, choice, path + ".protocol", reading);
}

}  // namespace

void read_collectives(const ConfigNode* node, const PresetSearch& search, Reading& reading,
                      Cluster& cluster) {
  if (node == nullptr) return;
  ConfigNode section_node = *node;
  if (section_node.kind == ConfigNode::Kind::scalar) {
    ConfigNode name = section_node;
    name.key = "from";
    section_node.kind = ConfigNode::Kind::map;
    section_node.children = {name};
  }
  const ResolvedSection resolved = resolve_from(std::move(section_node), "collectives", search, reading);
  if (!resolved.found) reading.partial_sections.emplace_back("cluster.collectives");
  SectionReader section(reading, &resolved.node, "cluster.collectives");
  if (section.is_no_map()) return;
  section.ignore({"simrun"});
  CollectivesConfig& config = cluster.collectives;
  read_paces(section.section("algorithms"), reading, config);
  if (section.has("channels")) config.channels = section.integer("channels", channels);
  section.ignore({"channels"});
  config.forced = read_choice(section, collective_algorithm_words());
  check(cluster, config.forced, "cluster.collectives", reading);
  for (const std::string& name : collective_names()) {
    const ConfigNode* const own = section.section(name);
    if (own == nullptr) continue;
    SectionReader choice(reading, own, section.path_of(name));
    if (choice.is_no_map()) continue;
    config.forced_by_name[name] = read_choice(choice, words_of(algorithms_of(name)));
    choice.finish();
    check(cluster, config.forced_by_name[name], section.path_of(name), reading);
  }
  for (const auto& [key, value] : {std::pair("experts_per_token", &config.experts_per_token),
                                   std::pair("nodes_per_token", &config.nodes_per_token)}) {
    if (section.has(key)) *value = section.integer(key, limits::experts);
    section.ignore({key});
  }
  section.finish();
}

}  // namespace simrun
