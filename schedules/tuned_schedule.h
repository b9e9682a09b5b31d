#pragma once

#include <limits>

#include "schedules/extend_order.h"
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

// The best of the rules that fit and of what is tuned under each limit of a fixed row that the shape's memory
// limit allows, so that more memory never makes it longer (with a repeated middle: as far as its time tells).
// Up to 16 ranks the row has every limit up to twice the ranks. Limits that a bound rules out are not tried.
// REQUIRES: memory_limit >= stages of a rank
Schedule tuned_schedule_within(const PipelineShape& shape, const Tuning& tuning);
Schedule tuned_schedule(const PipelineShape& shape, const Tuning& tuning);

// An order for few microbatches with so many copies of its middle (extend_order.h) more.
struct LongOrder {
  PassOrder few;
  Middle middle;
  int copies = 0;
  std::int64_t makespan = -1;  // of the whole, at most; -1: no order
};
PassOrder whole_order(const LongOrder& order);

// Of orders for the microbatches of `model`, best first, the one that is shortest with `extra` more.
LongOrder longest_lasting(const SearchModel& model, const std::vector<ScoredOrder>& orders, int extra);

// The shape with the microbatches that candidates are tried on.
PipelineShape few_microbatches(const PipelineShape& shape);

// F, I, W = 2, 3, 1 (a transformer's attention makes I the longest), and unit times with communication 1.
std::vector<PassTimes> other_times_than_equal();

}  // namespace simrun
