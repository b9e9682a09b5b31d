#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/shared_list.h"

namespace simrun {

// Cost of what must not be chosen.
constexpr double forbidden_cost = std::numeric_limits<double>::infinity();

// One thing to decide, among cost.size() strategies. `segment`: nodes of repeating parts (the layers of a
// model) have a number each, ascending; 0 everywhere if nothing repeats.
struct ChoiceNode {
  std::vector<double> cost;    // seconds, by strategy
  std::vector<double> memory;  // bytes, by strategy
  std::int32_t segment = 0;
  bool operator==(const ChoiceNode&) const = default;
};

// What two decisions cost together: seconds, row-major [strategies of from][strategies of to].
struct ChoiceEdge {
  std::size_t from = 0, to = 0;
  SharedList<double> cost;
  bool operator==(const ChoiceEdge&) const = default;
};

// Pick a strategy for every node so that the sum of all costs is least: Alpa's intra-operator problem without
// its linearisation (Zheng et al. 2022, OSDI, section 4.2).
struct ChoiceGraph {
  std::vector<ChoiceNode> nodes;
  std::vector<ChoiceEdge> edges;  // `from` and `to` differ
  bool operator==(const ChoiceGraph&) const = default;
};

struct Choice {
  double cost = 0;                        // seconds
  double memory = 0;                      // bytes, summed over nodes
  std::vector<std::uint16_t> strategies;  // by node
};

struct ChoiceLimits {
  double memory = std::numeric_limits<double>::infinity();  // bytes that a choice may take, with `front`
  // Whether memory counts: then the answer is a front of choices, else the cheapest one alone, of equals the
  // smaller.
  bool front = false;
  // Lists of points are thinned to two per bucket (that of least memory and that of least cost) of so many
  // equal parts of `memory`; 0: exact.
  std::size_t buckets = 0;
  std::size_t choices = std::numeric_limits<std::size_t>::max();  // of a front, the cheapest ones
  double entries = 2e8;  // of one table, including the node that it is minimised over
};

}  // namespace simrun
