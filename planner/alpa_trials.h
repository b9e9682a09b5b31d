#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/alpa_outcome.h"

namespace simrun {

// Plans of Alpa's search under the simulator, each once, and which of them is the best.
class AlpaTrials {
 public:
  // All must outlive it. threads: at least 1.
  AlpaTrials(const JobLoader& load, const AlpaPlanning& planning, unsigned threads,
             const PlanProgress& progress);

  // False where somebody stopped the search, now or before.
  bool goes_on(const char* phase, std::int64_t done = 0, std::int64_t all = 0);

  // Those that are new. Of a search that was stopped, the first of what it found.
  void simulate(std::vector<AlpaPlan> plans, const char* phase);

  // The fastest of the plans and of the references once more, with links shared between transfers as they
  // will be: those decide.
  void settle_with_contention();

  // As a search over jobs understands plan.fix: without a pipeline there is no schedule but 1F1B, and nothing
  // to say of virtual stages.
  bool is_allowed(const AlpaPlan& plan) const;

  std::optional<std::size_t> index_of(const AlpaPlan& plan) const;
  // Of the best plan; infinite: there is none.
  double best_s() const;
  // Of all plans that fit, allowed or not, the fastest; null: there is none.
  const AlpaPlan* fitting() const;
  // Does not fit, and would be faster than all that does.
  bool is_worth_tightening(std::size_t at) const;

  // Its references are the caller's to fill in.
  AlpaOutcome& outcome() { return outcome_; }
  const AlpaOutcome& outcome() const { return outcome_; }

 private:
  void simulate_fast(std::size_t at);
  void offer(std::size_t at);
  void settle(std::vector<SimulatedPlan>& plans, std::optional<std::size_t>& best);
  void share_links(SimulatedPlan& plan) const;

  const JobLoader& load_;
  const AlpaPlanning& planning_;
  unsigned threads_;
  const PlanProgress& progress_;
  AlpaOutcome outcome_;
};

}  // namespace simrun
