#pragma once

#include <string>
#include <vector>

#include "schedules/summary.h"
#include "visualizer/page.h"

namespace simrun {

struct ConfigDifference {
  std::string key;   // dotted path
  std::string a, b;  // as the effective config spells them; "" where a side has no such key
};

struct Comparison {
  std::string name_a, name_b;
  Summary a, b;
  std::vector<ConfigDifference> config;
};

enum class NumberKind : std::uint8_t { seconds, bytes, fraction, count };

// One number of both summaries; `key` is its path in summary_json ("exposed_by_traffic_s.tp"), or
// "peak_memory.activations" for the worst rank's share at its peak.
struct ComparedNumber {
  std::string key;
  std::string label;
  NumberKind kind = NumberKind::count;
  bool is_part = false;  // of the number above it
  double a = 0, b = 0;
};

// The numbers of a step, its parts and the worst rank's memory, in the order of the summary. Parts that are 0
// on both sides are left out, and throughput where one side counts images and the other tokens.
std::vector<ComparedNumber> compared_numbers(const Summary& a, const Summary& b);

// For people: numbers of A and B with B - A and that as a share of A, then the config keys that differ.
std::string comparison_table(const Comparison& comparison);

// For programs: {"a": summary, "b": summary, "difference": {key: {"absolute": b - a, "relative": of a, or
// null}}, "config": [{"key", "a", "b"}]}. `a_json` and `b_json` are summary_json of each.
std::string comparison_json(const Comparison& comparison, const std::string& a_json,
                            const std::string& b_json);

// The same around the drawing of both runs (html_page of two).
PageText comparison_text(const Comparison& comparison);

}  // namespace simrun
