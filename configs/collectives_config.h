#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// How collectives are carried out: which algorithms and protocols there are, what each costs, and which of
// them is taken (cluster.collectives).
namespace simrun {

// ring: NCCL's. two_level: rings inside the nodes, then between them. tree: double binary trees between
// nodes, chains inside. nvls, nvls_tree: reduction in the NVSwitch, between nodes in the fabric or in trees.
// collnet_*: reduction in the fabric's switches (SHARP). pat: parallel aggregated trees, one rank per node.
// direct, hierarchical: all-to-alls.
enum class CollectiveAlgorithm : std::uint8_t {
  automatic,
  ring,
  two_level,
  tree,
  nvls,
  nvls_tree,
  collnet_direct,
  collnet_chain,
  pat,
  direct,
  hierarchical
};

// NCCL's: 4 bytes of data and 4 of flag; 120 of 128 bytes; whole chunks with a flag of their own.
enum class CollectiveProtocol : std::uint8_t { automatic, ll, ll128, simple };

// Which of them; `automatic` stands for the fastest.
struct CollectiveChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  CollectiveProtocol protocol = CollectiveProtocol::automatic;
  auto operator<=>(const CollectiveChoice&) const = default;
};

// What an algorithm costs under a protocol beyond the bytes that it puts on links. A step between nodes takes
// at least the latency of its route, one inside a node that of its link if nothing else is said. Bus
// bandwidth is nccl-tests': that of the links, whatever the number of ranks.
struct CollectivePace {
  double base_s = 0;                // once
  double nvlink_s = 0, pcie_s = 0;  // of a step inside a node, with NVLink and without
  double network_s = 0;             // of a step between nodes
  double rank_s = 0;                // for every rank (of a node, where the algorithm says so)
  double efficiency = 1;            // of the links' bandwidth
  double reduction_efficiency = 1;  // of links inside a node whose switch reduces
  double channel_bandwidth = 0;     // bus bandwidth of one channel at most, bytes/s; 0: no limit
  double one_node_bandwidth = 0;    // bus bandwidth at most, over one node, two and more; 0: no limit
  double two_nodes_bandwidth = 0;
  double more_nodes_bandwidth = 0;
  bool operator==(const CollectivePace&) const = default;
};

struct CollectivesConfig {
  // Empty: nothing is known but the links. Then the faster of ring and two_level is taken, each step with the
  // latency of its link.
  std::map<CollectiveChoice, CollectivePace> paces;
  CollectiveChoice forced;                                 // for the collectives that it can carry out
  std::map<std::string, CollectiveChoice> forced_by_name;  // before it; by collective
  std::int64_t channels = 0;                               // 0: unlimited
  // Of what hierarchical all-to-alls carry: a token goes once to every node that has one of its experts.
  // 0: each copy of it goes by itself.
  std::int64_t experts_per_token = 0;
  std::int64_t nodes_per_token = 0;  // at most; 0: any number
  bool operator==(const CollectivesConfig&) const = default;
};

std::string to_string(CollectiveAlgorithm algorithm);  // "nvls_tree", "auto"
std::string to_string(CollectiveProtocol protocol);    // "ll128", "auto"
std::optional<CollectiveAlgorithm> collective_algorithm_of(const std::string& word);
std::optional<CollectiveProtocol> collective_protocol_of(const std::string& word);
std::vector<std::string> collective_algorithm_words();  // "auto" first
std::vector<std::string> collective_protocol_words();

// all_reduce, all_gather, reduce_scatter, broadcast, all_to_all
const std::vector<std::string>& collective_names();
// Those that can carry out the collective of that name, whatever the cluster; empty for any other name.
std::vector<CollectiveAlgorithm> algorithms_of(const std::string& collective);
// What algorithm and protocol the config asks for; the algorithm is automatic or one of algorithms_of().
CollectiveChoice forced_choice(const CollectivesConfig& config, const std::string& collective);

}  // namespace simrun
