#pragma once

#include <cstdint>
#include <optional>

#include "configs/job.h"

namespace simrun {

// How the expert-parallel ranks of one group lie on nodes: `ranks` of them on each of `nodes`. Nodes on one
// NVLink switch (GB200 NVL72) count as one where groups lie alike on these, as in HybridEP, DeepEP's kernels
// for such domains.
struct ExpertNodes {
  std::int64_t nodes = 1;
  std::int64_t ranks = 1;
};

// Of the job's order of ranks, where a pipeline stage's GPUs are neighbours and expert-parallel ranks are
// expert_tensor_parallel_size apart. Nothing where a group has unlike parts of nodes (of 12 ranks on nodes
// of 8), or a node ends among the tensor-parallel ranks of an expert.
std::optional<ExpertNodes> expert_nodes(const Job& job);

}  // namespace simrun
