#pragma once

#include "configs/cluster_config.h"
#include "configs/section_reader.h"

namespace simrun {

// A job on fewer GPUs of a node than the preset that it names has, `{from: dgx1_v100, gpus_per_node: 2}`,
// runs on the first ones: what the preset, but not the job, says of the others' links is dropped from
// `cluster` and from the values of `reading`. A link keeps its bandwidth, so a GPU that loses links loses
// theirs, unless the job itself says how fast they are together.
void keep_part_of_node(Cluster& cluster, Reading& reading);

}  // namespace simrun
