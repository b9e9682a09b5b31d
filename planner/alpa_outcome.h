#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "configs/plan_config.h"
#include "planner/alpa_search.h"
#include "planner/plan_progress.h"
#include "planner/simulated_plan.h"

namespace simrun {

// What both levels proposed and what the simulator says of it, beside plans that were not searched.
struct AlpaOutcome {
  std::vector<AlpaPlan> plans;
  std::vector<SimulatedPlan> simulated;   // by plan
  std::optional<std::size_t> best;        // of the plans that fit, the fastest
  std::vector<SimulatedPlan> references;  // reference_plans()
  std::optional<std::size_t> reference;   // the fastest of these, where it is faster than the best plan
  bool was_stopped = false;
};

struct AlpaPlanning {
  AlpaOptions search = {};
  // Of none, selective and full what is tried; empty: all, and as the job has it in place of its granularity.
  std::vector<std::string> recomputes = {};
  std::vector<std::string> schedules = {};        // that are tried; empty: 1F1B and those of ScheduleLimits
  std::vector<std::int64_t> virtual_stages = {};  // that are tried; empty: some
};

// The limits of a job's plan section as far as Alpa's search knows them. Throws std::invalid_argument for
// those that it does not know.
AlpaPlanning alpa_planning(const PlanConfig& limits);

// Searches, simulates every proposal, and where one does not fit after all, what is found there with as much
// less memory, and what else is estimated to be faster than the fastest that fits; behind these the best ones
// with pipelines under zero-bubble schedules (Qi et al. 2023 and 2024) and interleaved (Narayanan et al.
// 2021), and the best of all again with its memory in finer buckets; and the references. The fastest of both
// are simulated with links shared between transfers, which decides. Throws what alpa_plans() throws, and
// ConfigError for the job itself.
AlpaOutcome plan_by_alpa(const JobLoader& load, const AlpaPlanning& planning = {},
                         const PlanProgress& progress = {});

// What makes the fastest plan of all, a reference or not, of the job; nothing where none fits.
std::optional<std::vector<Override>> best_overrides(const AlpaOutcome& outcome);

// The best plan's stages (layers, logical mesh, seconds, bytes), its layouts by operators that have the same,
// its estimate beside what was simulated, the other proposals, and the references. Lines end in newlines.
std::string alpa_text(const AlpaOutcome& outcome);

}  // namespace simrun
