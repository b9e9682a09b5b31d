#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "configs/job.h"
#include "configs/load_job.h"
#include "planner/layer_prices.h"
#include "planner/plan_progress.h"

namespace simrun {

// What is given where the strategies of layers are searched.
struct GalvatronPoint {
  std::int64_t pipeline = 1, sequences = 1;  // of a microbatch over a whole stage
  int zero_stage = 1;                        // of what is not sharded by layer: 1, 2; 3: everything is
  LayerSplit ends = {};                      // of the embedding and the loss
  // What data-parallel ranks exchange for a layer counts as hidden: sharded layers lie among others.
  bool spreads_sharded = false;
  std::optional<LayerStrategy> only = {};  // all layers alike
  bool operator==(const GalvatronPoint&) const = default;
};

struct GalvatronStage {
  std::int64_t first_layer = 0, last_layer = 0;  // [first, last)
  double seconds = 0;                            // of a microbatch, as the dynamic program has it
  double bytes = 0;
  bool operator==(const GalvatronStage&) const = default;
};

// A strategy for every layer.
struct GalvatronPlan {
  GalvatronPoint point;
  std::int64_t microbatches = 1, stage_ranks = 1;
  std::vector<GalvatronStage> stages;
  std::vector<LayerStrategy> layers;
  std::int64_t unit_elements = 0;  // of a rank's part of the largest sharded layer
  double estimate_s = 0;
  double bytes = 0;       // of the fullest stage, without what comes and goes within passes
  bool is_bound = false;  // memory kept some layer from its fastest strategy
  bool is_uniform() const;
};

struct GalvatronOptions {
  std::int64_t max_memory = 0;  // bytes of a GPU; 0: what it has
  std::size_t plans = 6;  // that are simulated: of those with unlike layers, and of those with like ones
  std::int64_t most_split = 8;  // ranks of tensor parallel, and of Ulysses
  std::size_t buckets = 96;     // of memory, ChoiceLimits; 0: exact
  // Plans whose estimates are above the room by up to so much of it are proposed too: the simulator decides.
  double over_room = 0.1;
};

struct GalvatronProposals {
  std::vector<GalvatronPlan> mixed, uniform;  // best estimate first
  std::int64_t points = 0;                    // of the search
  std::int64_t feasible = 0;                  // for which the dynamic program ran and found what fits
};

// Galvatron's search (Miao et al. 2022, arXiv 2211.13878; Galvatron-BMW, arXiv 2307.02031): for every
// pipeline size and number of microbatches, the cut of the layers into stages and a strategy for every layer,
// by dynamic programs over both within the memory of a GPU: the cut is exact for time, with each stage's
// time being the least that fits its memory, so that BMW's way from a memory-balanced to a time-balanced cut
// is not needed. Layers of unlike splits have the activations between them exchanged. What data-parallel
// ranks exchange overlaps with compute as far as a layer's own passes hide it and slows it by the GPU's
// share of communication.
//
// REQUIRES: unsearched_by_galvatron(job) is empty (planner/unsearched.h).
GalvatronProposals galvatron_plans(const Job& job, LayerPrices& prices, const GalvatronOptions& options,
                                   const PlanProgress& progress = {});

// Whether they would be one job.
bool are_same(const GalvatronPlan& a, const GalvatronPlan& b);

// What makes the plan of the job, as --set has it.
std::vector<Override> galvatron_overrides(const Job& job, const GalvatronPlan& plan);

}  // namespace simrun
