// Megatron-LM's hybrid_override_pattern: layers of `gpt` that are attention, an MLP or experts alone.
#include <fmt/format.h>

#include <utility>

#include "configs/load_model_families.h"

namespace simrun {
namespace {

constexpr const char* pattern_key = "hybrid_override_pattern";
constexpr const char* symbols = "* is attention, - an MLP and E experts.";

// Megatron-LM's symbols (megatron/core/ssm/mamba_hybrid_layer_allocation.py, class Symbols).
constexpr char attention_symbol = '*', mlp_symbol = '-', expert_symbol = 'E', mamba_symbol = 'M';

class PatternReader {
 public:
  PatternReader(std::string pattern, const ModelKeys& keys)
      : pattern_(std::move(pattern)), keys_(keys), has_experts_(keys.model.experts.count > 0) {}

  void read() {
    ModelConfig& model = keys_.model;
    for (std::size_t at = 0; at < pattern_.size(); ++at)
      if (!is_symbol(at)) return;
    if (static_cast<std::int64_t>(pattern_.size()) != model.num_layers)
      return refused(
          0,
          fmt::format("{} has {} layers, num_layers is {}", pattern_key, pattern_.size(), model.num_layers),
          fmt::format("num_layers: {}, a character for each.", pattern_.size()));
    if (has_experts_ && pattern_.find(expert_symbol) == std::string::npos)
      return refused(0, fmt::format("'{}': num_experts, and no layer has them", pattern_key),
                     "E in the pattern for those layers.");
    for (const char symbol : pattern_)
      model.layer_contents.push_back(symbol == attention_symbol ? LayerContent::attention
                                                                : LayerContent::mlp);
    for (std::size_t layer = 0; has_experts_ && layer < pattern_.size(); ++layer)
      model.experts.layers[layer] = pattern_[layer] == expert_symbol;
  }

 private:
  bool is_symbol(std::size_t at) {
    const char symbol = pattern_[at];
    if (symbol == expert_symbol && !has_experts_)
      refused(at, fmt::format("'{}': layers of experts, and no num_experts", pattern_key),
              "num_experts: 8, or - for an MLP.");
    else if (symbol == mamba_symbol)
      refused(at, fmt::format("'{}': Mamba layers are not modelled", pattern_key), symbols);
    else if (symbol != attention_symbol && symbol != mlp_symbol && symbol != expert_symbol)
      refused(at, fmt::format("'{}': '{}' is no layer", pattern_key, symbol), symbols);
    else
      return true;
    return false;
  }

  void refused(std::size_t at, std::string message, std::string hint) {
    SourcePosition position = keys_.reading.position_of(keys_.section.path_of(pattern_key));
    if (position.line > 0) position.column += static_cast<int>(at);
    keys_.reading.problems.push_back({position, std::move(message), std::move(hint)});
  }

  std::string pattern_;
  const ModelKeys& keys_;
  bool has_experts_;
};

void refuse_beside_pattern(const ModelKeys& keys, const char* key, const char* why, const char* hint) {
  if (keys.section.has(key))
    keys.reading.problem(keys.section.path_of(key), fmt::format("{} beside {}: {}", key, pattern_key, why),
                         hint);
}

}  // namespace

bool read_gpt_pattern(const ModelKeys& keys) {
  if (keys.model.model_type != "gpt") return false;
  keys.section.ignore({pattern_key});
  if (!keys.section.has(pattern_key)) return false;
  std::string pattern = keys.section.text(pattern_key);
  if (pattern.empty())
    keys.reading.problem(keys.section.path_of(pattern_key), fmt::format("'{}' names no layer", pattern_key),
                         symbols);
  refuse_beside_pattern(keys, "moe_layer_freq", "the pattern says which layers have experts",
                        "E in the pattern for those layers.");
  keys.section.ignore({"moe_layer_freq"});
  refuse_beside_pattern(keys, "mtp_num_layers", "layers that predict further tokens are whole ones",
                        "leave one of them out.");
  if (!pattern.empty()) PatternReader(std::move(pattern), keys).read();
  return true;
}

}  // namespace simrun
