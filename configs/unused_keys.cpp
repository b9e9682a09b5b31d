#include "configs/unused_keys.h"

#include <fmt/format.h>

#include <cstdint>

namespace simrun {
namespace {

enum class Layer : std::uint8_t { preset, job, flag };

Layer layer_of(const ConfigNode& node, const Reading& reading) {
  if (node.key_position.line == 0) return Layer::flag;
  return node.key_position.file == reading.file ? Layer::job : Layer::preset;
}

}  // namespace

bool is_written_with(const ConfigNode* node, const ConfigNode* choice, const Reading& reading) {
  if (node == nullptr) return false;
  const Layer layer = layer_of(*node, reading);
  if (layer == Layer::preset) return false;
  return choice == nullptr || layer >= layer_of(*choice, reading);
}

void refuse_unused(const UnusedKeys& unused, SectionReader& section, Reading& reading) {
  const ConfigNode* const choice = section.section(unused.choice);
  for (const std::string& key : unused.keys) {
    const ConfigNode* const node = section.section(key);
    if (!is_written_with(node, choice, reading)) continue;
    reading.problems.push_back(
        {node->key_position,
         fmt::format("'{}' means nothing with {}: {}", section.path_of(key), unused.choice, unused.value),
         fmt::format("it belongs to {}: {}.", unused.choice, unused.belongs_to)});
  }
}

}  // namespace simrun
