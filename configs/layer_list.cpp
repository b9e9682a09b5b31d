#include "configs/layer_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "configs/section_reader.h"

namespace simrun {

bool has_layer(const LayerList& list, std::int64_t layer) {
  return std::ranges::any_of(
      list, [&](const ScopePattern::Layers& some) { return some.first <= layer && layer <= some.last; });
}

std::string layer_list_text(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += end - i == 1 ? fmt::format("{}", layers[i]) : fmt::format("{}-{}", layers[i], layers[end - 1]);
    i = end;
  }
  return text;
}

LayerList read_layer_list(SectionReader& section, Reading& reading, const std::string& key) {
  section.ignore({key});
  const std::string text = section.has(key) ? section.text(key) : "";
  if (text.empty()) return {};
  try {
    return parse_scope("layers[" + text + "]").layers;
  } catch (const std::invalid_argument&) {
    reading.problem(section.path_of(key),
                    fmt::format("'{}' must be a list of layers, not '{}'", section.path_of(key), text),
                    "layers are counted from 0, for example \"0-5,9\".");
    return {};
  }
}

void check_layer_list(Reading& reading, const std::string& path, const LayerList& list, std::int64_t layers) {
  ScopePattern scope;
  scope.layers = list;
  if (const auto beyond = scope.layer_beyond(layers); beyond && layers > 0)
    reading.problem(path, fmt::format("the model has {} layers, and no layer {}", layers, *beyond),
                    fmt::format("they are 0 to {}.", layers - 1));
}

}  // namespace simrun
