#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "configs/config_node.h"
#include "configs/key_rule.h"

namespace simrun {

// One value of the effective config: its dotted path, its YAML spelling and, in words, where it came from.
struct EffectiveValue {
  std::string path;
  std::string text;
  std::string origin;
};

// ASCII with a shape, or a space.
inline bool is_printable(char character) { return character >= 0x20 && character < 0x7f; }

// The text as a YAML double-quoted scalar.
std::string yaml_quoted(const std::string& text);

// What one load gathers while it reads section after section.
struct Reading {
  std::string file;
  std::vector<Diagnostic> problems;
  std::vector<std::string> files;                   // that were read, the job's first
  std::vector<EffectiveValue> values;               // in the order in which they are printed
  std::map<std::string, SourcePosition> positions;  // dotted path of each section and written value
  std::map<std::string, KeyRule> rules;             // of the keys that were asked for, by dotted path
  // Dotted paths of sections whose `from` could not be read: only what is written is judged, nothing is
  // missing.
  std::vector<std::string> partial_sections;
  std::set<std::string> refused;  // dotted paths of keys and sections that cannot be what they are

  // Where `path` is written; for a default, its section; else the file as a whole.
  SourcePosition position_of(std::string path) const;
  void problem(const std::string& path, std::string message, std::string hint = "");
  // What is written at the path, or a section that it is in, cannot be read.
  bool is_refused(const std::string& path) const;
  // A section that a job must have; told at its first line.
  void missing(const std::string& section, const std::string& example);
  // The section, or one that it is in, is partial.
  bool is_partial(const std::string& path) const;
  // Replaces the value if it is there already.
  void record(const std::string& path, std::string text, std::string origin);
  // Removes a value that another one now stands for.
  std::optional<EffectiveValue> take(const std::string& path);
};

// "from job.yaml:12", "--set".
std::string origin_of(const SourcePosition& position);

}  // namespace simrun
