#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/galvatron_search.h"
#include "planner/plan_progress.h"
#include "planner/simulated_plan.h"

namespace simrun {

// A plan of the search under the simulator.
struct SimulatedLayers {
  GalvatronPlan plan;
  SimulatedPlan simulated;
  bool is_mixed = false;  // of the search over strategies by layer; else all layers are alike
};

// What Galvatron's search proposed and what the simulator says of it.
struct GalvatronOutcome {
  std::vector<SimulatedLayers> plans;       // in the order in which they were proposed
  std::optional<std::size_t> best;          // of those that fit, the fastest
  std::optional<std::size_t> best_uniform;  // likewise of those whose layers are alike
  std::int64_t points = 0, feasible = 0;    // GalvatronProposals
  bool was_stopped = false;
};

// Searches, simulates every proposal, searches again where memory decided, with the difference between what
// the proposal was estimated and simulated to take, and goes on from the best to their neighbours
// (planner/galvatron_points.h) as long as these are faster. Throws std::invalid_argument, in words, for
// jobs that it does not search, and ConfigError for the job itself.
GalvatronOutcome plan_by_galvatron(const JobLoader& load, const GalvatronOptions& options,
                                   const PlanProgress& progress = {});

// The best plan's stages and strategies, the other proposals, and the best whose layers are alike. Lines end
// in newlines.
std::string galvatron_text(const GalvatronOutcome& outcome);

// "pipeline 2, 8 microbatches, ZeRO-1; layers 0-3 tensor 2 x data 4, recomputed; 4-7 data 8"
std::string describe(const GalvatronPlan& plan);

}  // namespace simrun
