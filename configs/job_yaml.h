#pragma once

#include <string>

#include "configs/config_node.h"

namespace simrun {

// Puts a scalar at a dotted path of a tree of maps, over what is there.
void put_scalar(ConfigNode& root, const std::string& path, ConfigNode value);

// The tree of a job as a YAML file: sections and their keys in the order in which they stand, nested maps
// and lists in flow style. Reading it gives the same tree.
std::string job_yaml(const ConfigNode& root);

}  // namespace simrun
