#pragma once

#include <cstdint>
#include <vector>

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

// Tokens that each of `ranks` expert-parallel ranks receives, over their mean; the mean of these is 1. Rank r
// holds the experts [r E / ranks, (r + 1) E / ranks).
//   load_imbalance f   one rank has f, the others share the rest evenly
//   zipf s             expert e's load is in proportion to (e + 1)^-s
//   histogram          as recorded
// All 1 where the job says nothing, or gives experts a capacity: what is dropped is padded.
std::vector<double> expert_loads(const Job& job, std::int64_t ranks);

// Gives the rows of experts that are split over ranks an extent by rank, where the load is uneven: kernels,
// exchanges and memory of the busiest rank then show.
void add_expert_tables(Plan& plan, const Job& job);

}  // namespace simrun
