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
  // fit, at most so many, the shortest first.
  // Fewer where those of all calls together have many passes: a search of a large job is not to take much
  // longer. None where nobody can tell: one stage, a model without kinds of layers, sizes that do not divide.
  std::vector<Candidate> of(const Candidate& candidate, std::size_t most);

 private:
  const PlanBase& base_;
  SharedStepPrices prices_;
  Estimator estimator_;
  std::int64_t passes_left_ = 50'000;
};

}  // namespace simrun
