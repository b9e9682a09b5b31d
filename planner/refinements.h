#pragma once

#include <functional>
#include <vector>

#include "planner/search.h"

namespace simrun {

// What a search found and goes on from.
struct Refined {
  const PlanBase& base;
  const PlanSearchResult& result;
  const std::vector<RankedCandidate>& fitting;  // all that fit
  // Simulates those that were not yet; each that is better than the best by that share of its goal becomes
  // one of them.
  std::function<void(const std::vector<Candidate>&, double least_gain)> try_all;
};

// From the best to its neighbours, as long as one is better: a wrong estimate is often one choice away.
void improve(const Refined& search);

// Under schedules that have no estimates, the best of some splits.
void try_other_schedules(const Refined& search);

// The first of the best in whatever the job leaves open beside its split, one thing at a time, as long as one
// is better.
void tune(const Refined& search);

// The best of two pipelined splits under orders that are searched for their own passes, on up to 64 GPUs
// and for few microbatches. What comes of it is not climbed from: every order is searched anew.
void try_searched_orders(const Refined& search);

}  // namespace simrun
