#include "configs/delta_net_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "configs/layer_pattern.h"
#include "configs/limits.h"
#include "configs/nearest.h"

namespace simrun {
namespace {

constexpr const char *variant_key = "experimental_attention_variant", *freq_key = "linear_attention_freq";
constexpr std::array further_keys{freq_key,
                                  "linear_num_key_heads",
                                  "linear_num_value_heads",
                                  "linear_key_head_dim",
                                  "linear_value_head_dim",
                                  "linear_conv_kernel_dim"};

LayerContent content_of(bool is_linear) {
  return is_linear ? LayerContent::delta_net_and_mlp : LayerContent::attention_and_mlp;
}

// Without such layers their sizes say nothing.
void forget_unused(ModelConfig& model) {
  if (std::ranges::find(model.layer_contents, LayerContent::delta_net_and_mlp) == model.layer_contents.end())
    model.delta_net = {};
}

void all_but_every(std::int64_t interval, ModelConfig& model) {
  for (std::int64_t layer = 0; interval > 0 && layer < model.num_layers; ++layer)
    model.layer_contents.push_back(content_of((layer + 1) % interval != 0));
}

void read_layer_types(const ConfigNode& node, const ModelKeys& keys) {
  std::vector<std::string> words;
  for (const ConfigNode& layer : node.children) {
    if (layer.text != "full_attention" && layer.text != "linear_attention")
      return keys.reading.problems.push_back(
          {layer.position, fmt::format("layer type {} is not supported yet", describe(layer)),
           "full_attention and linear_attention are."});
    words.push_back(layer.text);
  }
  if (static_cast<std::int64_t>(words.size()) != keys.model.num_layers)
    return keys.reading.problems.push_back(
        {node.position,
         fmt::format("layer_types has {} entries for {} layers", words.size(), keys.model.num_layers), ""});
  for (const std::string& word : words)
    keys.model.layer_contents.push_back(content_of(word == "linear_attention"));
  keys.reading.record(keys.section.path_of("layer_types"), fmt::format("[{}]", fmt::join(words, ", ")),
                      origin_of(node.position));
}

void read_freq(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  const ConfigNode* node = keys.section.section(freq_key);
  if (node == nullptr || node->text.find_first_of("[(") == std::string::npos)
    return all_but_every(keys.section.integer(freq_key, limits::layers), model);
  LayerPattern pattern = parse_layer_pattern(node->text, static_cast<std::size_t>(limits::layers.most));
  if (pattern.problem.empty() && static_cast<std::int64_t>(pattern.layers.size()) != model.num_layers)
    pattern.problem = fmt::format("{} entries for {} layers", pattern.layers.size(), model.num_layers);
  if (!pattern.problem.empty())
    return keys.reading.problem(keys.section.path_of(freq_key),
                                fmt::format("'{}': {}", freq_key, pattern.problem),
                                "a number n, or for example \"[1,1,1,0]*12\": 1 for a layer with it.");
  keys.reading.record(keys.section.path_of(freq_key), yaml_quoted(node->text), origin_of(node->position));
  for (const bool is_linear : pattern.layers) model.layer_contents.push_back(content_of(is_linear));
}

}  // namespace

void read_delta_net(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  DeltaNetConfig& delta = keys.model.delta_net;
  // Qwen3NextConfig's defaults, which are Megatron-LM's.
  delta.num_key_heads = section.integer("linear_num_key_heads", limits::heads, 16);
  delta.num_value_heads = section.integer("linear_num_value_heads", limits::heads, 32);
  delta.key_head_dim = section.integer("linear_key_head_dim", limits::width, 128);
  delta.value_head_dim = section.integer("linear_value_head_dim", limits::width, 128);
  const std::int64_t width =
      section.integer("linear_conv_kernel_dim", limits::width, DeltaNetConfig::conv_width);
  if (width > 0 && width != DeltaNetConfig::conv_width)
    keys.reading.problem(section.path_of("linear_conv_kernel_dim"),
                         fmt::format("linear_conv_kernel_dim is {} in the layers that are modelled",
                                     DeltaNetConfig::conv_width),
                         fmt::format("linear_conv_kernel_dim: {}.", DeltaNetConfig::conv_width));
  if (delta.on() && delta.num_value_heads % delta.num_key_heads != 0)
    keys.reading.problem(section.path_of("linear_num_key_heads"),
                         fmt::format("{} value heads do not split over {} key heads", delta.num_value_heads,
                                     delta.num_key_heads),
                         nearest_divisors(delta.num_value_heads, delta.num_key_heads));
}

void read_linear_attention_layers(const ModelKeys& keys) {
  const ConfigNode* node = keys.section.section("layer_types");
  const std::int64_t interval = keys.section.integer("full_attention_interval", limits::layers, 4);
  if (node == nullptr)
    all_but_every(interval, keys.model);
  else
    read_layer_types(*node, keys);
  forget_unused(keys.model);
}

void read_gpt_delta_net(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  section.ignore({variant_key});
  if (!section.has(variant_key)) {
    for (const char* key : further_keys) {
      section.ignore({key});
      if (section.has(key))
        keys.reading.problem(section.path_of(key), fmt::format("{}, and no {}", key, variant_key),
                             fmt::format("{}: gated_delta_net.", variant_key));
    }
    return;
  }
  section.word(variant_key, {{"gated_delta_net"}, {"dsa", "kda"}});
  if (!keys.model.layer_contents.empty())
    keys.reading.problem(
        section.path_of(variant_key),
        fmt::format("{} beside hybrid_override_pattern, which says what the layers are", variant_key),
        "one of the two.");
  read_delta_net(keys);
  if (keys.model.layer_contents.empty()) read_freq(keys);
  forget_unused(keys.model);
}

}  // namespace simrun
