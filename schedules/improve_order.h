#pragma once

#include <cstdint>

#include "schedules/search_model.h"

namespace simrun {

// Local search as for job shops (Nowicki and Smutnicki 1996; Balas and Vazacopoulos 1998): only passes on a
// longest path can shorten the makespan, so in each step one of them moves to the front or the end of its run
// of passes without a gap. The move with the least estimated longest path through it is taken, worse or not,
// but no order twice.
// An order must not take longer than `makespan` under the times of this model of the same passes.
struct ImproveGuard {
  const SearchModel* model = nullptr;
  std::int64_t makespan = 0;
};
struct ImproveOptions {
  std::int64_t evaluations = 0;
  std::int64_t stop_at = 0;    // makespan that needs no improvement
  std::int64_t restart = 400;  // evaluations without improvement before it goes back to the best order
  std::uint64_t seed = 1;      // of the choice between equal moves
  std::vector<ImproveGuard> guards = {};
};
struct Improvement {
  PassOrder order;  // never worse than the one it started from; its peak is within the model's limit
  std::int64_t makespan = 0;
  std::int64_t evaluations = 0;  // done
};
// REQUIRES: `start` is complete, free of deadlock and within the memory limit.
Improvement improve_order(const SearchModel& model, const PassOrder& start, const ImproveOptions& options);

}  // namespace simrun
