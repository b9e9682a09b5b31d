#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of a job's model, whatever its family. Its `batch` is one microbatch over all
// data-parallel ranks.
Graph build_graph(const Job& job);

}  // namespace simrun
