// What of a model is trained: frozen parts and low-rank adapters.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

const char* pattern_hint(const ModelConfig& model) {
  if (family_as<VisionLanguageConfig>(model.family) != nullptr)
    return "patterns are vision_tower, multi_modal_projector, language_model, embedding, head, layers and "
           "\"layers[0-11].fc1\" (in quotes).";
  return "patterns are embedding, head, layers, \"layers[0-11]\" and \"layers[0-11].fc1\" (in quotes).";
}

// The other frameworks' words for our operators.
const WordRule& lora_targets() {
  static const auto ours = [](const char* theirs, const char* word) {
    return fmt::format("'{}' is '{}' here", theirs, word);
  };
  static const WordRule rule{{"qkv", "attention_projection", "fc1", "fc2", "q", "k", "v"},
                             {},
                             {{"linear_qkv", ours("linear_qkv", "qkv")},
                              {"linear_proj", ours("linear_proj", "attention_projection")},
                              {"linear_fc1", ours("linear_fc1", "fc1")},
                              {"linear_fc2", ours("linear_fc2", "fc2")},
                              {"q_proj", ours("q_proj", "q")},
                              {"k_proj", ours("k_proj", "k")},
                              {"v_proj", ours("v_proj", "v")},
                              {"o_proj", ours("o_proj", "attention_projection")},
                              {"down_proj", ours("down_proj", "fc2")},
                              {"gate_proj", "'gate_proj' and up_proj are one product here, 'fc1'"},
                              {"up_proj", "'up_proj' and gate_proj are one product here, 'fc1'"}}};
  return rule;
}

bool has_word(const std::vector<std::string>& words, const char* word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

void read_lora(SectionReader& section, Reading& reading, Training& training) {
  const ConfigNode* node = section.section("lora");
  if (node == nullptr) return;
  SectionReader keys(reading, node, section.path_of("lora"));
  if (keys.is_no_map()) return;
  LoraConfig lora;
  lora.rank = keys.integer("rank", limits::width);
  lora.alpha =
      keys.real("alpha", limits::lora_alpha, static_cast<double>(std::max<std::int64_t>(lora.rank, 1)));
  lora.dropout = keys.real("dropout", limits::probability, 0);
  lora.targets = keys.words("targets", lora_targets(), {"qkv", "attention_projection", "fc1", "fc2"});
  keys.finish();
  if (has_word(lora.targets, "qkv"))
    for (const char* part : {"q", "k", "v"})
      if (has_word(lora.targets, part))
        reading.problem(keys.path_of("targets"),
                        fmt::format("'{}' is part of 'qkv', which is listed too", part),
                        "list qkv for one adapter of all three, or q, k and v for one each.");
  training.lora = std::move(lora);
}

void read_frozen(SectionReader& section, Reading& reading, ModelConfig& model) {
  const ConfigNode* node = section.section("frozen");
  if (node == nullptr) return;
  const std::string path = section.path_of("frozen");
  reading.positions[path] = node->position;
  if (node->kind != ConfigNode::Kind::sequence || node->children.empty())
    return reading.problem(path,
                           fmt::format("'{}' must be a list of patterns, not {}", path, describe(*node)),
                           pattern_hint(model));
  std::vector<std::string> texts;
  for (const ConfigNode& child : node->children) {
    std::optional<ScopePattern> pattern;
    if (child.kind == ConfigNode::Kind::scalar) pattern = parse_scope(child.text);
    if (!pattern) {
      reading.problems.push_back({child.position,
                                  fmt::format("{} is no part of a model", in_quotes(child.text)),
                                  pattern_hint(model)});
    } else if (model.num_layers > 0 && pattern->last_layer >= model.num_layers) {
      reading.problems.push_back(
          {child.position,
           fmt::format("{} reaches beyond the model's {} layers", in_quotes(child.text), model.num_layers),
           fmt::format("the last is {}.", model.num_layers - 1)});
    } else {
      texts.push_back(yaml_quoted(child.text));
      model.frozen.push_back(std::move(*pattern));
    }
  }
  reading.record(path, fmt::format("[{}]", fmt::join(texts, ", ")), origin_of(node->position));
}

}  // namespace simrun
