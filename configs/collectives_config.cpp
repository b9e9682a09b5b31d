#include "configs/collectives_config.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace simrun {
namespace {

// In the order of the enumerators.
constexpr std::array algorithm_words{"auto", "ring",      "two_level",      "tree",
                                     "nvls", "nvls_tree", "collnet_direct", "collnet_chain",
                                     "pat",  "direct",    "hierarchical"};
constexpr std::array protocol_words{"auto", "ll", "ll128", "simple"};

template <class Enum, std::size_t n>
std::optional<Enum> enum_of_word(const std::array<const char*, n>& words, const std::string& word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace

std::string to_string(CollectiveAlgorithm algorithm) {
  return algorithm_words[static_cast<std::size_t>(algorithm)];
}
std::string to_string(CollectiveProtocol protocol) {
  return protocol_words[static_cast<std::size_t>(protocol)];
}
std::optional<CollectiveAlgorithm> collective_algorithm_of(const std::string& word) {
  return enum_of_word<CollectiveAlgorithm>(algorithm_words, word);
}
std::optional<CollectiveProtocol> collective_protocol_of(const std::string& word) {
  return enum_of_word<CollectiveProtocol>(protocol_words, word);
}
std::vector<std::string> collective_algorithm_words() {
  return {algorithm_words.begin(), algorithm_words.end()};
}
std::vector<std::string> collective_protocol_words() {
  return {protocol_words.begin(), protocol_words.end()};
}

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                              "all_to_all"};
  return names;
}

std::vector<CollectiveAlgorithm> algorithms_of(const std::string& collective) {
  using enum CollectiveAlgorithm;
  if (collective == "all_reduce")
    return {ring, two_level, tree, nvls, nvls_tree, collnet_direct, collnet_chain};
  if (collective == "all_gather" || collective == "reduce_scatter") return {ring, two_level, nvls, pat};
  if (collective == "broadcast") return {ring, tree};
  if (collective == "all_to_all") return {direct, hierarchical};
  return {};
}

CollectiveChoice forced_choice(const CollectivesConfig& config, const std::string& collective) {
  CollectiveChoice choice = config.forced;
  if (const auto own = config.forced_by_name.find(collective); own != config.forced_by_name.end()) {
    if (own->second.algorithm != CollectiveAlgorithm::automatic) choice.algorithm = own->second.algorithm;
    if (own->second.protocol != CollectiveProtocol::automatic) choice.protocol = own->second.protocol;
  }
  const std::vector<CollectiveAlgorithm> able = algorithms_of(collective);
  if (std::find(able.begin(), able.end(), choice.algorithm) == able.end())
    choice.algorithm = CollectiveAlgorithm::automatic;
  return choice;
}

}  // namespace simrun
