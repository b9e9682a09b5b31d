#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "planner/search.h"

namespace simrun {

// What fits from a number on, and what it must be better than to be among the best.
struct Newcomers {
  std::size_t first = 0;
  double to_beat = 0;                                               // each transfer alone on its links
  double to_beat_shared = std::numeric_limits<double>::infinity();  // with shared links
  std::optional<std::set<Candidate>> only = {};                     // nothing: all of them
};

// What a search found and goes on from.
struct Refined {
  const PlanBase& base;
  const PlanSearchResult& result;
  const std::vector<RankedCandidate>& fitting;                  // all that fit
  std::function<void(const std::vector<Candidate>&)> simulate;  // those that were not yet
  std::function<void(const Newcomers&)> place;                  // among the best
};

// Simulates those that were not yet; what is better than the best becomes one of them.
void try_all(const Refined& search, const std::vector<Candidate>& next);

// From the best to its neighbours, as long as one is better: a wrong estimate is often one choice away.
void improve(const Refined& search);

// The best of some splits under schedules that were not estimated for every candidate.
void try_other_schedules(const Refined& search);

// From the best of some splits and schedules, one layer at a time to another stage, as long as that is
// better: estimates say which of the many moves are worth a look.
void move_layers(const Refined& search);

// The best of some splits and schedules in whatever the job leaves open beside its split, one thing at a
// time, as long as that gains 0.1 %.
void tune(const Refined& search);

// The best of two pipelined splits under orders that are searched for their own passes, on up to 64 GPUs
// and for few microbatches. What comes of it is not climbed from: every order is searched anew.
void try_searched_orders(const Refined& search);

}  // namespace simrun
