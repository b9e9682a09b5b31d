#pragma once

#include <vector>

#include "planner/candidate.h"

namespace simrun {

// Seconds by bytes, from prices at some sizes: straight lines in between, and the last one's rate beyond.
struct PriceCurve {
  std::vector<double> bytes, seconds;  // ascending; empty: it costs nothing
  double at(double size) const;
};

// What stages exchange, and what a step does behind its passes, for one split of the ranks: prices of the
// simulator for a plan of two stages (or one) on the real number of data-parallel ranks.
struct StepPrices {
  PriceCurve send;  // a boundary between stages, of one sequence on all of a stage's context-parallel ranks
  double sent_bytes = 0;                         // of one sequence
  PriceCurve reduce_dense, reduce_expert;        // gradients over data-parallel ranks
  PriceCurve gather_dense, gather_expert;        // updated or sharded weights
  double reduced_bytes = 4, gathered_bytes = 2;  // per element
  double bucket = 4e7;                           // elements of one collective at most
  double update_s_per_element = 0;               // of the optimizer; elements it updates

  double send_s(const Candidate& candidate) const;
  double reduce_s(double dense_elements, double expert_elements) const;
  double gather_s(double dense_elements, double expert_elements) const;
};

// `job`: the candidate's, as the loader accepts it. Throws what compile() throws.
StepPrices step_prices(const Job& job, const Candidate& candidate);

}  // namespace simrun
