#include "configs/job_yaml.h"

#include <fmt/format.h>

#include "configs/section_reader.h"

namespace simrun {
namespace {

std::string scalar_text(const ConfigNode& node) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/ ";
  const bool is_plain = !node.text.empty() && node.text.find_first_not_of(plain) == std::string::npos &&
                        node.text.front() != ' ' && node.text.front() != '-';
  return node.quoted || !is_plain ? yaml_quoted(node.text) : node.text;
}

std::string flow(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::null) return "null";
  if (node.kind == ConfigNode::Kind::scalar) return scalar_text(node);
  const bool is_map = node.kind == ConfigNode::Kind::map;
  std::string text;
  for (const ConfigNode& child : node.children) {
    if (!text.empty()) text += ", ";
    text += (is_map ? child.key + ": " : "") + flow(child);
  }
  return is_map ? "{" + text + "}" : "[" + text + "]";
}

}  // namespace

void put_scalar(ConfigNode& root, const std::string& path, ConfigNode value) {
  ConfigNode* parent = &root;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    const std::string key = path.substr(begin, dot - begin);
    begin = dot + 1;
    ConfigNode* section = parent->find(key);
    if (section == nullptr) {
      parent->children.emplace_back();
      section = &parent->children.back();
      section->key = key;
      section->kind = ConfigNode::Kind::map;
      section->position = section->key_position = value.position;
    }
    parent = section;
  }
  value.key = path.substr(begin);
  if (ConfigNode* there = parent->find(value.key))
    *there = std::move(value);
  else
    parent->children.push_back(std::move(value));
}

std::string job_yaml(const ConfigNode& root) {
  std::string yaml;
  for (const ConfigNode& section : root.children) {
    if (section.kind != ConfigNode::Kind::map) {
      yaml += fmt::format("{}: {}\n", section.key, flow(section));
      continue;
    }
    yaml += section.key + ":\n";
    for (const ConfigNode& child : section.children)
      yaml += fmt::format("  {}: {}\n", child.key, flow(child));
  }
  return yaml;
}

}  // namespace simrun
