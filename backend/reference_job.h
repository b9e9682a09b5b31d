#pragma once

#include "configs/job.h"

namespace simrun {

// The job that says what a job must compute: the same model, data and optimizer on one rank. Every parallel
// size is 1, with the default schedule, no ZeRO, no parameter servers, no recompute, no offload and no layout
// of one's own. The micro batch is of the same size and the global batch too, so that the one rank runs as
// many microbatches as all data-parallel ranks together, each with the same sequences: what is done per
// microbatch (batch norm) has the same scope. An expert's capacity and the balance loss count over the parts
// of sequences that the job's ranks have (models/expert_scope.h). Where a layout of one's own gives ranks
// other samples, and that matters, the micro batch is what a rank has (backend/microbatch_parts.h). Pure.
//
// Throws std::invalid_argument where no single rank computes the same: batch norm over replicas of unlike
// size; and what microbatch_parts() throws.
Job reference_job(const Job& job);

}  // namespace simrun
