#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/estimate.h"
#include "planner/evaluate_candidate.h"

namespace simrun {

// Candidates that lay one layer of a stage elsewhere, on GPUs of one kind. What they share is priced once.
// Not thread-safe.
class MovedLayers {
 public:
  // The base must outlive it.
  explicit MovedLayers(const PlanBase& base);

  // Of all pairs of stages those that are estimated to take least, hardly more than the candidate, and may
  // fit, at most so many, the shortest first; fewer where all calls together would simulate more passes than
  // a search has time for. None where nobody can tell: one stage, a model without kinds of layers, sizes that
  // do not divide.
  std::vector<Candidate> of(const Candidate& candidate, std::size_t most);

 private:
  const PlanBase& base_;
  SharedStepPrices prices_;
  Estimator estimator_;
  // A second of DeepSeek-V3's search on 2,048 GPUs, of whose steps one has 31,000.
  std::int64_t passes_left_ = 50'000;
};

}  // namespace simrun
