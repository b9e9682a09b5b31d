#include "configs/config_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "configs/numbers.h"

namespace simrun {

const ConfigNode* ConfigNode::find(std::string_view name) const {
  if (kind != Kind::map) return nullptr;
  const auto at = std::ranges::find(children, name, &ConfigNode::key);
  return at == children.end() ? nullptr : &*at;
}

ConfigNode* ConfigNode::find(std::string_view name) {
  return const_cast<ConfigNode*>(static_cast<const ConfigNode*>(this)->find(name));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string shown = "'";
  for (const char character : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f)
      shown += fmt::format("\\x{:02x}", byte);
    else
      shown += character;
  }
  return shown + (text.size() > longest ? "...'" : "'");
}

std::string describe(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null: return "nothing";
    case ConfigNode::Kind::scalar: return (node.quoted ? "the quoted text " : "") + in_quotes(node.text);
    case ConfigNode::Kind::sequence: return "a list";
    case ConfigNode::Kind::map: return "a map";
  }
  return "";
}

static bool is_smaller(const ConfigNode& a, const ConfigNode& b) {
  const IntegerRange any{0, std::numeric_limits<std::int64_t>::max()};
  const Parsed<std::int64_t> left = parse_integer(a.text, any), right = parse_integer(b.text, any);
  return left.value && right.value && *left.value < *right.value;
}

ConfigNode merged(ConfigNode base, const ConfigNode& over) {
  using enum ConfigNode::Kind;
  const bool over_is_partial = over.kind == map && over.find("from") == nullptr;
  const bool names_preset = over.key == "gpu" || over.key == "collectives" || over.key == "framework";
  if (base.kind == scalar && over_is_partial && names_preset) {
    ConfigNode preset = base;
    preset.key = "from";
    base.kind = map;
    base.text.clear();
    base.children = {preset};
  }
  if (base.kind != map || !over_is_partial) return over;
  for (const ConfigNode& child : over.children) {
    ConfigNode* below = base.find(child.key);
    if (below != nullptr && child.is_most && !is_smaller(child, *below)) continue;
    if (below != nullptr)
      *below = merged(std::move(*below), child);
    else
      base.children.push_back(child);
  }
  base.key_position = over.key_position;
  base.position = over.position;
  return base;
}

}  // namespace simrun
