#pragma once

#include "schedules/search_model.h"

namespace simrun {

// One greedy pass over time: whenever a rank is free it takes, of the forwards and backwards that are allowed
// and there (or will be within `patience`), the one with the least priority number
// target[lane] + microbatch x period. W fills gaps.
struct GreedyRule {
  std::vector<int> ahead;  // by lane: forwards that may lack their backward
  std::vector<std::int64_t> forward_target, backward_target;  // by lane
  std::int64_t period = 0;
  std::int64_t patience = 0;
  std::int64_t weight_fill = 0;  // percent of a W that a gap must have room for; 0: W starts in every gap; of
                                 // a sequence -1: W starts in none while forwards or backwards are left
  std::vector<int> weight_backlog = {};  // by rank: W's that may wait; more, and one runs at once; empty: any
  bool weight_before_backward = false;   // when the memory limit alone keeps a forward from starting
  bool split = true;                     // I and W; else B
  bool eager_drain = true;  // of a sequence: once the first lane has no more forwards, backwards that are
                            // there need not wait for their turn
};

// The greedy pass with the forwards and backwards of every rank in the given order (`sequence` has no W's),
// so that only the W's are placed; targets, patience and `ahead` of the rule are not used. Empty if some rank
// can hold no more activations and must.
PassOrder fill_weights(const SearchModel& model, const GreedyRule& rule, const PassOrder& sequence);

// Complete, causal and free of deadlock for every rule: of the activations that a rank may hold one is kept
// for every lane behind the one that asks. REQUIRES: memory_limit >= least_memory(model), ahead >= 1.
// O(passes x (lanes of a rank + log ranks)).
PassOrder greedy_pass(const SearchModel& model, const GreedyRule& rule);

}  // namespace simrun
