#include "configs/effective_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "configs/sha256.h"

namespace simrun {
namespace {

struct Line {
  std::string text;
  std::string origin;
};

// The lines of all values below `prefix` (which ends in a dot, or is empty), each group where its first value
// is.
void append_section(const std::vector<EffectiveValue>& values, const std::string& prefix,
                    std::vector<Line>& lines) {
  const auto depth = static_cast<std::size_t>(std::ranges::count(prefix, '.'));
  const std::string indent(2 * depth, ' ');
  std::vector<std::string> done;
  for (const EffectiveValue& value : values) {
    if (!value.path.starts_with(prefix)) continue;
    const std::string rest = value.path.substr(prefix.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (key == rest) {
      lines.push_back({fmt::format("{}{}: {}", indent, key, value.text), value.origin});
      continue;
    }
    if (std::ranges::find(done, key) != done.end()) continue;
    done.push_back(key);
    lines.push_back({fmt::format("{}{}:", indent, key), ""});
    append_section(values, prefix + key + ".", lines);
  }
}

std::vector<Line> lines_of(const std::vector<EffectiveValue>& values) {
  std::vector<Line> lines;
  append_section(values, "", lines);
  return lines;
}

}  // namespace

std::string effective_yaml(const std::vector<EffectiveValue>& values) {
  constexpr std::size_t comment_column = 48;
  std::string yaml;
  for (const Line& line : lines_of(values)) {
    yaml += line.text;
    if (!line.origin.empty()) {
      const std::size_t padding = line.text.size() < comment_column ? comment_column - line.text.size() : 1;
      yaml += std::string(padding, ' ') + "# " + line.origin;
    }
    yaml += '\n';
  }
  return yaml;
}

std::string effective_sha256(const std::vector<EffectiveValue>& values) {
  std::vector<EffectiveValue> sorted =
      values;  // a default may be recorded later than a written value would be
  std::ranges::sort(sorted, {}, &EffectiveValue::path);
  std::string text;
  for (const EffectiveValue& value : sorted) text += value.path + ": " + value.text + "\n";
  return sha256(text);
}

}  // namespace simrun
