#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planner/estimate.h"
#include "planner/evaluate_candidate.h"

namespace simrun {

struct RankedCandidate {
  Candidate candidate;
  Estimate estimate;
  Evaluation evaluation;
};

// What a search did and found.
struct PlanSearchResult {
  std::int64_t candidates = 0;          // whose sizes divide
  std::int64_t pruned = 0;              // of these, that take longer than the best by a bound
  std::int64_t feasible = 0;            // of the others, that fit by their estimates, if they have any
  std::int64_t evaluated = 0;           // that were compiled and simulated
  std::vector<RankedCandidate> best;    // that fit, by the objective; simulated with contention
  std::vector<RankedCandidate> pareto;  // that fit and that none beats in both time and memory, fastest first
  std::vector<RankedCandidate> rest;    // all others that were simulated, in the order of their estimates
  bool has_estimates = true;
  bool was_stopped = false;
  bool is_without_contention = false;  // it was stopped before the best were simulated with contention
};

enum class PlanSearchPhase : std::uint8_t { estimating, simulating, with_contention };
struct PlanSearchProgress {
  PlanSearchPhase phase = PlanSearchPhase::estimating;
  std::int64_t done = 0, all = 0;  // of the phase; all is 0 where it is not known
};

// Several processes that search together, each with the same job and options.
struct SearchProcesses {
  int process = 0, processes = 1;
  // Does this process's share of a part of the work; returns what the shares of all came to, in the order of
  // processes, the same in each. Throws where one is lost. Not needed by one process.
  std::function<std::vector<std::string>(const std::function<std::string()>& share)> gather = {};
  // Whether a share is for nobody any more, since gather() will throw. Asked by any thread; may be empty.
  std::function<bool()> is_over = {};
  bool goes_on() const { return !is_over || !is_over(); }
};

struct PlanSearchOptions {
  unsigned threads =
      0;  // 0: one per processor. The result is the same for any number of them and of processes
  SearchProcesses among = {};
  std::map<Candidate, Evaluation> known = {};  // of an earlier search of the same job
  bool tunes = true;                           // the best (planner/refinements.h)
  // Called on the searching thread, now and then; false stops the search. May be empty.
  std::function<bool(const PlanSearchProgress&)> progress = {};
};

// The best ways to split a job: every candidate is estimated, the most promising are compiled and simulated
// with the fast engine until at least PlanConfig::evaluations are and none is left whose estimate, if it errs
// as those before it did, lies below the PlanConfig::best best ones found; those are simulated with
// contention. Memory is bounded whatever the number of candidates. Deterministic.
//
// Jobs whose layers have no kinds (has_layer_kinds) have no estimates: all candidates are simulated or, where
// there are more than 4,000 (or four times PlanConfig::evaluations), a grid of at most 1,000 (or as many;
// planner/enumerated_candidates.h). From the best 24 of the splits of the ranks under a schedule the search
// then climbs to neighbours (planner/candidate_neighbours.h), among which are those that overlap.
//
// Throws ConfigError where the limits leave no candidate, with what contradicts what.
//
// On clusters with several kinds of GPU every candidate stands for itself with equal shares and balanced, as
// its best estimate has it (planner/balanced_estimate.h); the best are balanced by simulated times
// (planner/mixed_search.h).
PlanSearchResult search_jobs_once(const PlanBase& base, const PlanSearchOptions& options);

// The same; on up to 64 GPUs under a limit of memory below theirs also without it, and whatever keeps to it
// of that search's best and front is among the candidates: what the search comes by on its way from plans
// that need more. So the limit of a plan on the front never leads to a slower one than that.
PlanSearchResult search_jobs(const PlanBase& base, const PlanSearchOptions& options);

// Makes the best by the objective of these, with those that were on the front of time and memory, the
// result's best and front; the rest stays.
void keep_best(const PlanBase& base, std::vector<RankedCandidate> fitting, PlanSearchResult& result);

}  // namespace simrun
