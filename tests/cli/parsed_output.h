#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "configs/config_node.h"

namespace simrun {

// JSON is YAML: the config reader refuses anything that is not well-formed.
inline ConfigNode parsed_json(const std::string& text) {
  std::vector<Diagnostic> problems;
  ConfigNode root = read_yaml(text, "output", problems);
  INFO(text.substr(0, 2000));
  for (const Diagnostic& problem : problems) FAIL(problem.position.line << ": " << problem.message);
  return root;
}

// The node at a path of keys; fails the test if there is none.
inline const ConfigNode& member(const ConfigNode& node, const std::string& key) {
  const ConfigNode* found = node.find(key);
  INFO(key);
  REQUIRE(found != nullptr);
  return *found;
}

inline double number(const ConfigNode& node, const std::string& key) {
  return std::stod(member(node, key).text);
}

// The records of an RFC 4180 file.
inline std::vector<std::vector<std::string>> parsed_csv(const std::string& text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record(1);
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_quoted && c == '"' && at + 1 < text.size() && text[at + 1] == '"')
      record.back() += text[++at];
    else if (c == '"')
      is_quoted = !is_quoted;
    else if (!is_quoted && c == ',')
      record.emplace_back();
    else if (!is_quoted && c == '\n')
      records.push_back(std::exchange(record, std::vector<std::string>(1)));
    else
      record.back() += c;
  }
  CHECK_FALSE(is_quoted);
  CHECK(record == std::vector<std::string>(1));
  return records;
}

}  // namespace simrun
