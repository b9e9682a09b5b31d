#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/diagnostics.h"

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

// What one rule says of the operators of its scope ("": all).
struct RegionRule {
  std::string scope;
  std::vector<DimensionChoice> choices;
  SourcePosition position;  // of its scope, or of the rule
  bool operator==(const RegionRule& other) const { return scope == other.scope && choices == other.choices; }
};

struct LayoutConfig {
  std::vector<OwnAxis> mesh;
  SourcePosition mesh_position;
  std::vector<RegionRule> rules;  // a later one wins
  bool operator==(const LayoutConfig& other) const { return mesh == other.mesh && rules == other.rules; }
};

}  // namespace simrun
