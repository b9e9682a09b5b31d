#pragma once

#include <vector>

#include "validation/link_text.h"
#include "validation/row_job.h"

namespace simrun {

// The section cluster: the preset that the hardware's rule names, with the row's GPUs per node and the NICs
// and rate that its inter_link says. Fewer GPUs than a node has are one smaller node. Where the preset's
// wiring (a PCIe tree, an NVLink mesh) is that of another number of GPUs or NICs, only its GPU, latencies and
// efficiencies are kept.
void write_cluster(RowJob& made, KnownPresets& presets, const std::vector<LinkGeneration>& generations);

}  // namespace simrun
