#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "configs/diagnostics.h"

namespace simrun {

// One value of a YAML or JSON text, before any schema: what is written, and where. Trees from several files
// are merged, so every node keeps its own position. A value from the command line has the position
// {"--set key=value", 0, 0}.
struct ConfigNode {
  enum class Kind : std::uint8_t { null, scalar, sequence, map };

  Kind kind = Kind::null;
  std::string key;  // within a map; unique among its siblings
  SourcePosition key_position;
  std::string text;     // scalar: its characters, unescaped
  bool quoted = false;  // scalar: written in quotes or as a block, so it is no number and no boolean
  SourcePosition position;
  bool is_most = false;              // merged over a smaller number it is that one
  std::vector<ConfigNode> children;  // of a sequence or a map, in order

  const ConfigNode* find(std::string_view name) const;
  ConfigNode* find(std::string_view name);
};

// By the path of the file.
using ParsedFiles = std::map<std::string, ConfigNode>;

// For messages: "'8'", "a list", "a map", "nothing". Long and unprintable text is shortened and escaped.
std::string describe(const ConfigNode& node);
std::string in_quotes(std::string_view text);

// Reads one YAML document (JSON is one) into nodes. Problems are appended with their position: syntax,
// duplicate keys, anchors, aliases, merges, tags, several documents, more than 32 levels, more than 1 MiB.
// After a problem the tree holds what could be read (for an alias what it stands for), or nothing.
ConfigNode read_yaml(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems);

// `over` on top of `base`: maps are merged key by key, anything else is replaced. A map with its own `from`
// replaces too; a map over the name of a preset (`gpu: h100_sxm`) overrides fields of that preset.
ConfigNode merged(ConfigNode base, const ConfigNode& over);

}  // namespace simrun
