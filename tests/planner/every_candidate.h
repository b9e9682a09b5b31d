#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/search.h"

namespace simrun {

// A job of 4 to 64 GPUs, a different one for every number: GPT, Llama with large vocabularies and grouped
// heads, windows, experts, layers by number that pipelines do not divide, on A100, H100 and V100 nodes with
// fast and slow networks.
std::string searched_job(unsigned number);

// Every candidate of a job with what the fast engine says of it.
struct EveryCandidate {
  std::vector<RankedCandidate> all;
  std::int64_t skipped = 0;  // since their estimated memory is more than so many times what there is
};

struct EverySearch {
  unsigned threads = 2;
  double most_memory = 0;       // x what there is by the estimates; 0: all are simulated
  std::string known_file = {};  // read and added to: what was simulated before
};
EveryCandidate simulate_every(const PlanBase& base, const EverySearch& how);

// The best of them that fits, simulated with contention. Sharing links makes no step shorter, so only those
// need it whose step without is below the best one with.
RankedCandidate best_of_every(const PlanBase& base, const std::vector<RankedCandidate>& all);

}  // namespace simrun
