#pragma once

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

// Gives data-parallel ranks their own numbers of sequences of every microbatch
// (Training::replica_micro_batch_sizes): wherever the batch is split over them, its extent comes from a
// table. A loss is the mean over the whole microbatch, so each sequence weighs the same in the sum of
// gradients whichever rank has it. Does nothing where replicas are alike.
//
// Throws std::invalid_argument where the job's layout keeps a batch whole or splits it over other ranks.
void add_replica_batches(Plan& plan, const Job& job);

}  // namespace simrun
