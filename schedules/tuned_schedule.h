#pragma once

#include <limits>

#include "schedules/schedule_candidates.h"

namespace simrun {

// What the named schedules that tune their order have in common: candidates are tried on no more microbatches
// than show the steady state, the best are improved, and the middle of the best is repeated.

// An order for those few microbatches and for all of the shape.
struct TunedOrder {
  PassOrder few, whole;
};
struct Tuning {
  Placement placement = Placement::loop;
  bool patterns = false;                    // try repeating patterns too
  std::vector<PassTimes> other_times = {};  // between equal orders, those under which it should be good too
  std::int64_t passes = 600'000;            // that all candidates have together
  int input_limit = std::numeric_limits<int>::max();  // activations that a rank may hold from F to I
  // Orders that it must not be worse than, if they keep the memory limit. `whole` may be empty; if not, it
  // is held against the result for the whole shape too.
  std::vector<TunedOrder> rules = {};
};
TunedOrder tuned_order(const PipelineShape& shape, const Tuning& tuning);
Schedule tuned_schedule(const PipelineShape& shape, const Tuning& tuning);

// The shape with the microbatches that candidates are tried on.
PipelineShape few_microbatches(const PipelineShape& shape);

// F, I, W = 2, 3, 1 (a transformer's attention makes I the longest), and unit times with communication 1.
std::vector<PassTimes> other_times_than_equal();

}  // namespace simrun
