#include "configs/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace simrun {
namespace {

// The path, or a section that it is in.
bool is_within(const std::string& path, const std::string& section) {
  return path == section || path.starts_with(section + ".");
}

}  // namespace

std::string yaml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character;
  }
  return quoted + "\"";
}

SourcePosition Reading::position_of(std::string path) const {
  for (;;) {
    if (const auto at = positions.find(path); at != positions.end()) return at->second;
    const std::size_t dot = path.rfind('.');
    if (dot == std::string::npos) return {file, 0, 0};
    path.erase(dot);
  }
}

void Reading::problem(const std::string& path, std::string message, std::string hint) {
  problems.push_back({position_of(path), std::move(message), std::move(hint)});
}

bool Reading::is_refused(const std::string& path) const {
  return std::ranges::any_of(refused, [&](const std::string& of) { return is_within(path, of); });
}

void Reading::missing(const std::string& section, const std::string& example) {
  problems.push_back({{file, 1, 1},
                      fmt::format("missing required section '{}'", section),
                      fmt::format("for example {}.", example)});
}

bool Reading::is_partial(const std::string& path) const {
  return std::ranges::any_of(partial_sections,
                             [&](const std::string& section) { return is_within(path, section); });
}

void Reading::record(const std::string& path, std::string text, std::string origin) {
  const auto at = std::ranges::find(values, path, &EffectiveValue::path);
  if (at == values.end())
    values.push_back({path, std::move(text), std::move(origin)});
  else
    *at = {path, std::move(text), std::move(origin)};
}

std::optional<EffectiveValue> Reading::take(const std::string& path) {
  const auto at = std::ranges::find(values, path, &EffectiveValue::path);
  if (at == values.end()) return std::nullopt;
  EffectiveValue taken = *at;
  values.erase(at);
  return taken;
}

std::string origin_of(const SourcePosition& position) {
  if (position.line == 0) return "--set";
  std::string file;
  for (const char character : position.file) file += is_printable(character) ? character : '?';
  return fmt::format("from {}:{}", file, position.line);
}

}  // namespace simrun
