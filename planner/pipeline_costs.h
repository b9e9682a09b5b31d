#pragma once

#include <vector>

#include "planner/candidate.h"
#include "planner/pass_costs.h"

namespace simrun {

// Costs of passes by virtual stage, in model order, and by pipeline rank: of all virtual stages there.
struct PipelineCosts {
  std::vector<PartCost> stages, ranks;

  // Forward and backward of a microbatch on all stages of the slowest rank.
  double slowest_pass_s() const;
};

// Of layers spread as balanced_stages() does; empty where there are more stages than layers.
PipelineCosts pipeline_costs(const Job& job, const Candidate& candidate, const PassCosts& costs);

// Likewise, from stages that cost as they stand.
PipelineCosts with_ranks(std::vector<PartCost> stages, const Candidate& candidate);

// Whether the schedule splits backward passes and runs the half with the weight gradients later.
bool puts_off_weight_gradients(const Candidate& candidate);

// Seconds of a step's passes: the slowest rank's work, and the way of the first microbatch there and of the
// last one back. Narayanan et al. 2021 (arXiv 2104.04473), section 2.2; Qi et al. 2023 (arXiv 2401.10241),
// section 3. send_s: of a boundary between stages; every microbatch of ZB-V waits for two, since its ranks
// have no time left between passes.
double passes_s(const Candidate& candidate, double microbatches, const PipelineCosts& costs, double send_s);

// Of the fullest pipeline rank, where a microbatch has so many times the activations that `pipeline` has.
double peak_bytes(const PassCosts& costs, const Candidate& candidate, double microbatches,
                  const PipelineCosts& pipeline, double times = 1);

}  // namespace simrun
