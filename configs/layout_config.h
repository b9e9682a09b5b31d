#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/diagnostics.h"
#include "configs/scope_pattern.h"

// The layout section of a job as plain values: the user's own rules, which come before those of the
// parallelism section. Names of dimensions and scopes are those of the model's graph, so they are checked
// where that is known (schedules/layout_rules.h), with the positions kept here.
namespace simrun {

// An axis of a mesh of the user's own over the ranks of a stage. The first varies fastest.
struct OwnAxis {
  std::string name;
  std::int64_t size = 1;
  bool operator==(const OwnAxis&) const = default;
};

// One dimension split over an ordered list of axes, the outermost first; whole where the list is empty.
struct DimensionChoice {
  std::string dim;
  std::vector<std::string> axes;
  SourcePosition dim_position;
  std::vector<SourcePosition> axis_positions;
  // Equal if they say the same, wherever.
  bool operator==(const DimensionChoice& other) const { return dim == other.dim && axes == other.axes; }
};

// Whale's two primitives (Jia et al. 2022, arXiv 2011.09208, section 3): the scope's operators on `count`
// ranks of a stage, either each with a part of the batch, or each with a part of the model.
struct TaskGraph {
  enum class Kind : std::uint8_t { none, replicate, split };
  Kind kind = Kind::none;
  std::int64_t count = 0;
  SourcePosition position;
  bool operator==(const TaskGraph& other) const { return kind == other.kind && count == other.count; }
};

// What one rule says of the operators of its scope (none: all).
struct RegionRule {
  ScopePattern scope;
  std::vector<DimensionChoice> choices;
  TaskGraph task_graph;     // instead of choices
  SourcePosition position;  // of its scope, or of the rule
  bool operator==(const RegionRule& other) const {
    return scope == other.scope && choices == other.choices && task_graph == other.task_graph;
  }
};

struct LayoutConfig {
  std::vector<OwnAxis> mesh;
  SourcePosition mesh_position;
  std::vector<RegionRule> rules;  // a later one wins
  bool operator==(const LayoutConfig& other) const { return mesh == other.mesh && rules == other.rules; }
};

}  // namespace simrun
