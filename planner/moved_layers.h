#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/estimate.h"
#include "planner/evaluate_candidate.h"
#include "planner/search.h"
#include "planner/shortlist.h"

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

  // Layers on stages in another way, and what that is estimated to take.
  struct Lightest {
    Candidate candidate;
    bool fits = false;
    double step_s = 0, peak_bytes = 0;
  };
  // With layers moved one by one for as long as the fullest rank needs less. Nothing where no move helps, all
  // ranks together need too much, or nobody can tell.
  std::optional<Lightest> lightest(const Candidate& candidate);
  // With fewer layers on the first stage, which holds most microbatches, and on the last, which has the head:
  // of what fits the fastest; nothing where none does.
  std::optional<Lightest> with_lighter_ends(const Candidate& candidate);
  // Whether a search has time to simulate it beside what was asked for before.
  bool has_time_for(const Candidate& candidate);

 private:
  double room_of(const PassCosts& passes) const;

  const PlanBase& base_;
  SharedStepPrices prices_;
  Estimator estimator_;
  // A second of DeepSeek-V3's search on 2,048 GPUs, of whose steps one has 31,000.
  std::int64_t passes_left_ = 50'000;
};

// Of pipelines with a rank that is too full, the fastest by their estimates first: the layers moved to where
// the fullest rank has less, where all ranks then have enough; at most ten, two of a split and schedule, and
// no more passes than a search has time to simulate. None on GPUs of several kinds.
std::vector<Candidate> lightened(const PlanBase& base, std::vector<EstimatedCandidate> heavy);

// Of each split and schedule that the limits leave, in the smallest microbatches with as much recomputed as
// may be, the layers moved to where the fullest rank has less: at most so many, first what is estimated to
// fit, the fastest first, then what lacks least. `goes_on` hears how many of how many are done; false: none.
std::vector<Candidate> lightest_pipelines(const PlanBase& base, std::size_t most,
                                          const std::function<bool(const PlanSearchProgress&)>& goes_on);

}  // namespace simrun
