#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/alpa_search.h"
#include "planner/simulated_plan.h"

namespace simrun {

// What both levels proposed and what the simulator says of it, beside plans that were not searched.
struct AlpaOutcome {
  std::vector<AlpaPlan> plans;
  std::vector<SimulatedPlan> simulated;   // by plan
  std::optional<std::size_t> best;        // of the plans that fit, the fastest
  std::vector<SimulatedPlan> references;  // reference_plans()
  std::optional<std::size_t> reference;   // the fastest of these, where it is faster than the best plan
};

// Searches, simulates every proposal, and where one does not fit after all, what is found there with as much
// less memory; behind these the best ones with pipelines under zero-bubble schedules
// (Qi et al. 2023), and the best of all again with its memory in finer buckets; and the references. The
// fastest of both are simulated with links shared between transfers, which decides. Throws what alpa_plans()
// throws, and ConfigError for the job itself.
AlpaOutcome plan_by_alpa(const JobLoader& load, const AlpaOptions& options = {});

// What makes the fastest plan of all, a reference or not, of the job; nothing where none fits.
std::optional<std::vector<Override>> best_overrides(const AlpaOutcome& outcome);

// The best plan's stages (layers, logical mesh, seconds, bytes), its layouts by operators that have the same,
// its estimate beside what was simulated, the other proposals, and the references. Lines end in newlines.
std::string alpa_text(const AlpaOutcome& outcome);

}  // namespace simrun
