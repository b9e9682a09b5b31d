#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/search.h"

namespace simrun {

// A job of 2 to 64 GPUs, a different one for every number: GPT, Llama with large vocabularies and grouped
// heads, windows, experts, layers by number that pipelines do not divide, long sequences, batches of 6 to
// 384, on A100, H100 and V100 nodes with fast and slow networks. From first_of_other_kinds on BERT, adapters,
// frozen weights and fp8 by turns; from first_of_open_overlap on those from 0 on, but that leave open whether
// gradients are reduced and parameters gathered behind passes.
std::string searched_job(unsigned number);
inline constexpr unsigned first_of_other_kinds = 10000, first_of_open_overlap = 20000;

// A limit that the fastest candidate does not keep: by the estimates, so much of the way from the least
// memory of all to that of the fastest one that fits; 0: nothing fits. REQUIRES: has_layer_kinds().
double tight_memory(const PlanBase& base, double part);

// Every candidate of a job with what the fast engine says of it.
struct EveryCandidate {
  std::vector<RankedCandidate> all;
  std::int64_t dropped = 0;  // as hopeless, and not among them
};

struct EverySearch {
  unsigned threads = 2;
  // Those are not simulated whose estimated step is more than so many times the best one's, or whose memory
  // is so many times what there is; 0: all are.
  double hopeless = 0;
  std::string known_file = {};  // read and added to: what was simulated before, and is taken too
};
// REQUIRES: has_layer_kinds().
EveryCandidate simulate_every(const PlanBase& base, const EverySearch& how);

// The best of them that fits, simulated with contention. Sharing links makes no step shorter, so only those
// need it whose step without is below the best one with.
RankedCandidate best_of_every(const PlanBase& base, const std::vector<RankedCandidate>& all);

}  // namespace simrun
