#pragma once

#include "configs/config_node.h"

namespace simrun {

// The preset `base` as a cluster section `over` it sees it that has fewer gpus_per_node, `{from: dgx1_v100,
// gpus_per_node: 2}`: its first GPUs, with the NVLinks among them and their PCIe switches. A link keeps its
// bandwidth, so a GPU that loses links loses theirs. What `over` writes itself is not touched, nor are nodes
// of several kinds. What changes has the position of the new gpus_per_node.
ConfigNode part_of_node(ConfigNode base, const ConfigNode& over);

}  // namespace simrun
