#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// A second engine, slow and obvious, to hold the fast one against: first-in-first-out queues per (rank,
// stream), maps for everything, a global loop that starts whatever can start, and time divided by looking at
// every elementary interval.
//
// A plan without extent tables, jitter and stragglers runs on one GPU per pipeline rank; any other on all of
// them, which must be in one mesh of one axis, and links must have no latency.
struct ReferenceRun {
  Picoseconds step = 0;
  std::size_t gpus_per_rank = 1;
  // Start and duration by (GPU, entry, instruction); GPUs are numbered rank by rank.
  std::map<std::tuple<std::size_t, Index, Index>, std::pair<Picoseconds, Picoseconds>> times;
  std::vector<RankTotals> totals;  // by GPU
};

// Runs the entries of the steady step. Throws std::runtime_error if nothing can start before all is done.
ReferenceRun reference_run(const Plan& plan);

// Peak of live bytes of one GPU of a rank, by keeping every buffer instance in a set.
std::int64_t reference_peak(const Plan& plan, std::size_t rank, std::size_t gpu = 0);

}  // namespace simrun
