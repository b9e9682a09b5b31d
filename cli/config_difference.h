#pragma once

#include <vector>

#include "cli/read_input.h"
#include "visualizer/comparison.h"

namespace simrun {

// Keys whose values differ, by their paths: of the effective configs, or, where one side is a Plan file, of
// what a Plan tells of its job and cluster.
std::vector<ConfigDifference> config_differences(const Input& a, const Input& b);

}  // namespace simrun
