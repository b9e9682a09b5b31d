#include "configs/hybrid_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "configs/limits.h"
#include "configs/nearest.h"

namespace simrun {
namespace {

constexpr const char* symbols = "* is attention, - an MLP, E experts and M Mamba-2.";
constexpr char attention_symbol = '*', mlp_symbol = '-', expert_symbol = 'E', mamba_symbol = 'M';

}  // namespace

HybridLayers::HybridLayers(const char* key, const ModelKeys& keys)
    : HybridLayers(key, keys.section.text(key), false, keys) {}

HybridLayers HybridLayers::of_words(const char* key, const ModelKeys& keys,
                                    std::vector<std::string> fallback) {
  const std::map<std::string, char> symbol_of = {
      {"attention", attention_symbol}, {"mlp", mlp_symbol}, {"moe", expert_symbol}, {"mamba", mamba_symbol}};
  WordRule rule;
  rule.may_repeat = true;
  for (const auto& entry : symbol_of) rule.accepted.push_back(entry.first);
  const std::size_t told = keys.reading.problems.size();
  std::string pattern;
  for (const std::string& word : keys.section.words(key, rule, std::move(fallback)))
    if (const auto symbol = symbol_of.find(word); symbol != symbol_of.end()) pattern += symbol->second;
  const bool has_refused_words = keys.reading.problems.size() > told;
  HybridLayers layers(key, std::move(pattern), true, keys);
  if (has_refused_words) layers.is_readable_ = false;
  return layers;
}

HybridLayers::HybridLayers(const char* key, std::string pattern, bool is_list, const ModelKeys& keys)
    : key_(key),
      pattern_(std::move(pattern)),
      is_list_(is_list),
      keys_(keys),
      has_experts_(keys.model.experts.count > 0) {
  if (pattern_.empty())
    keys.reading.problem(keys.section.path_of(key_), fmt::format("'{}' names no layer", key_), symbols);
  is_readable_ = are_symbols();
}

bool HybridLayers::has_mamba() const { return pattern_.find(mamba_symbol) != std::string::npos; }

void HybridLayers::read() {
  ModelConfig& model = keys_.model;
  if (!is_readable_) return;
  if (static_cast<std::int64_t>(pattern_.size()) != model.num_layers)
    return refused(0,
                   fmt::format("{} has {} layers, num_layers is {}", key_, pattern_.size(), model.num_layers),
                   fmt::format("num_layers: {}, a character for each.", pattern_.size()));
  if (has_experts_ && pattern_.find(expert_symbol) == std::string::npos)
    return refused(0, fmt::format("'{}': num_experts, and no layer has them", key_),
                   "E in the pattern for those layers.");
  for (const LayerKind& kind : kinds()) model.layer_contents.push_back(kind.content);
  for (std::size_t layer = 0; has_experts_ && layer < pattern_.size(); ++layer)
    model.experts.layers[layer] = pattern_[layer] == expert_symbol;
}

void HybridLayers::read_further() {
  if (is_readable_) keys_.model.further_layers = kinds();
}

std::vector<LayerKind> HybridLayers::kinds() const {
  std::vector<LayerKind> kinds;
  for (const char symbol : pattern_)
    kinds.push_back({symbol == attention_symbol ? LayerContent::attention
                     : symbol == mamba_symbol   ? LayerContent::mamba
                                                : LayerContent::mlp,
                     symbol == expert_symbol});
  return kinds;
}

bool HybridLayers::are_symbols() {
  for (std::size_t at = 0; at < pattern_.size(); ++at)
    if (!is_symbol(at)) return false;
  return !pattern_.empty();
}

bool HybridLayers::is_symbol(std::size_t at) {
  const char symbol = pattern_[at];
  if (symbol == expert_symbol && !has_experts_)
    refused(at, fmt::format("'{}': layers of experts, and no num_experts", key_),
            is_list_                                 ? "n_routed_experts: 8, or mlp for an MLP."
            : keys_.model.model_type == "nemotron_h" ? "n_routed_experts: 8, or - for an MLP."
                                                     : "num_experts: 8, or - for an MLP.");
  else if (symbol != attention_symbol && symbol != mlp_symbol && symbol != expert_symbol &&
           symbol != mamba_symbol)
    refused(at, fmt::format("'{}': '{}' is no layer", key_, symbol), symbols);
  else
    return true;
  return false;
}

void HybridLayers::refused(std::size_t at, std::string message, std::string hint) {
  SourcePosition position = keys_.reading.position_of(keys_.section.path_of(key_));
  if (position.line > 0 && !is_list_) position.column += static_cast<int>(at);
  keys_.reading.problems.push_back({position, std::move(message), std::move(hint)});
}

void read_mamba(const MambaKeys& names, const ModelKeys& keys) {
  SectionReader& section = keys.section;
  MambaConfig& mamba = keys.model.mamba;
  const auto known = [](std::int64_t value) {
    return value > 0 ? std::optional<std::int64_t>(value) : std::nullopt;
  };
  mamba.state_dim = section.integer(names.state, limits::width, known(names.state_default));
  mamba.head_dim = section.integer(names.head_dim, limits::width, known(names.head_dim_default));
  mamba.num_groups = section.integer(names.groups, limits::heads, known(names.groups_default));
  const bool divides = mamba.head_dim > 0 && names.width_default % mamba.head_dim == 0;
  std::int64_t heads = divides ? names.width_default / mamba.head_dim : 0;
  // Of a width that is refused itself, any number: what follows from it is not missing.
  if (names.width_default > 0 && keys.model.hidden_size == 0) heads = mamba.num_groups;
  mamba.num_heads = section.integer(names.heads, limits::heads, known(heads));
  if (mamba.num_groups > 0 && mamba.num_heads % mamba.num_groups != 0)
    keys.reading.problem(
        section.path_of(names.groups),
        fmt::format("{} Mamba heads do not split into {} groups", mamba.num_heads, mamba.num_groups),
        nearest_divisors(mamba.num_heads, mamba.num_groups));
}

}  // namespace simrun
