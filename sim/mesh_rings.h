#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/topology.h"

namespace simrun {

// The rings over GPUs of one node that a collective takes at once, each an order of them that begins with the
// first: a part of the bytes goes around each. Where pairs of GPUs have NVLinks of their own (a mesh), as
// many as have links for themselves, both ways around, as NCCL searches for them (src/graph/search.cc): on a
// DGX-1 with V100, six. Elsewhere, and where the links make no ring, one in the order of the GPUs.
std::vector<std::vector<std::int64_t>> rings_inside(const Topology& topology,
                                                    std::span<const std::int64_t> gpus);

}  // namespace simrun
