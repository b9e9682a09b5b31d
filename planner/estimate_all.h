#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/balanced_estimate.h"
#include "planner/candidate_family.h"
#include "planner/search.h"
#include "planner/shortlist.h"

namespace simrun {

// What the estimates of a job's candidates come to, or of those of one process.
struct EstimatedShare {
  // pruned: those of which no more is known than that they take longer than what was asked for.
  std::int64_t candidates = 0, pruned = 0, feasible = 0;
  std::vector<EstimatedCandidate> shortlist;  // of estimates; or, where there are none, of bounds
  // Of tensor-, context- and pipeline-parallel ranks, what lacks least memory, or has most to spare.
  std::map<std::array<std::int64_t, 3>, EstimatedCandidate> lightest;
  // Of pipelines with a rank that is too full by its estimate, though not by far: others may have room.
  std::vector<EstimatedCandidate> heavy;
  bool was_stopped = false;
};

// Of a search's candidates those with the smallest microbatch and no recompute, or all others.
struct EstimatedPart {
  bool is_plainest = true;
  double most_s = 0;                 // what is known to take longer is not estimated
  std::vector<Candidate> only = {};  // in order; empty: all of the part
  bool of_variants = false;          // of `only`, plainest or not, the variants (candidate_variants.h)
};

// Estimates candidates, family by family, of which every process has its own. REQUIRES: has_layer_kinds(job).
class FamilyEstimates {
 public:
  // The base and the options must outlive it. `most`: of a shortlist.
  FamilyEstimates(const PlanBase& base, std::size_t most, const PlanSearchOptions& options);

  // Of this process's families those of the part that may take `most_s` or less; of the rest bounds.
  EstimatedShare estimate(const EstimatedPart& part);

 private:
  bool goes_on(std::int64_t candidates, bool reports);
  // What one thread has found.
  struct Found {
    EstimatedShare share;
    Shortlist shortlist, heavy;
    bool reports = false;  // it asks whether to go on
  };
  // Estimates every candidate of a family's part with `estimate`, an estimator's.
  void visit_family(std::size_t family, const EstimatedPart& part, Found& found,
                    const std::function<std::optional<EstimatedCandidate>(const Candidate&)>& estimate);
  void estimate_family(std::size_t family, const EstimatedPart& part, Found& found);
  // The candidate with or without overlap, where the job leaves that open: the one with the shorter step.
  std::optional<EstimatedCandidate> of_better_overlap(Estimator& estimator, const Candidate& of,
                                                      double most_s) const;
  void take(const EstimatedCandidate& of, Found& found) const;

  const PlanBase& base_;
  std::size_t most_;
  const PlanSearchOptions& options_;
  std::vector<CandidateFamily> families_;  // of this process
  std::vector<KnownPasses> passes_;        // by family: what was probed
  SharedStepPrices steps_;
  std::atomic<bool> stopped_ = false;
};

// All processes' shares in one, with at most so many on its shortlist, all the same whoever did what.
EstimatedShare join_shares(const std::vector<EstimatedShare>& shares, std::size_t most, PlanObjective goal);

// Of the lightest candidates the first few, those that lack least memory first.
std::vector<EstimatedCandidate> first_lightest(const EstimatedShare& share);

// Estimates every candidate that may get on a shortlist of so many; the same for any number of processes and
// threads. What cannot get there is not estimated. On clusters of several kinds of GPU with balances.
EstimatedShare estimate_all(const PlanBase& base, std::size_t most, const PlanSearchOptions& options);

}  // namespace simrun
