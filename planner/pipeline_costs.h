#pragma once

#include <cstddef>
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

// Likewise of stages that hold what is said, on ranks whose passes cost unlike times; by pipeline rank.
PipelineCosts pipeline_costs(const Candidate& candidate, const std::vector<StageContent>& contents,
                             const std::vector<const PassCosts*>& of_ranks);

// Likewise, from stages that cost as they stand.
PipelineCosts with_ranks(std::vector<PartCost> stages, const Candidate& candidate);

// Whether the schedule splits backward passes and runs the half with the weight gradients later.
bool puts_off_weight_gradients(const Candidate& candidate);

// DualPipe: every stage lives on two pipeline ranks, each of which runs it for half the microbatches. They
// sum its gradients and divide its optimizer state between them.
bool goes_both_ways(const Candidate& candidate);

// In ZB-V and its kin the way of a microbatch leads down the ranks and back up.
bool is_wave(const Candidate& candidate);

// That has the stage; of DualPipe the one of those on the way down.
std::size_t pipeline_rank_of(const Candidate& candidate, std::size_t stage);

// Whether word embeddings that the first and the last stage share lie on two pipeline ranks, which sum their
// gradients. In a wave both stages are on the first one, in DualPipe on both ends.
bool sums_tied(const Candidate& candidate);

// Seconds of a step's passes: the slowest rank's work, the way of the first microbatch there and of the last
// one back (Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Qi et al. 2023, arXiv 2401.10241, section
// 3), and what they wait for transfers. sends_s: of the boundary between each pipeline rank and the next.
double passes_s(const Candidate& candidate, double microbatches, const PipelineCosts& costs,
                const std::vector<double>& sends_s);

// Of the fullest pipeline rank, where a microbatch has so many times the activations that `pipeline` has.
double peak_bytes(const PassCosts& costs, const Candidate& candidate, double microbatches,
                  const PipelineCosts& pipeline, double times = 1);

// Of every pipeline rank.
std::vector<double> peaks_of_ranks(const PassCosts& costs, const Candidate& candidate, double microbatches,
                                   const PipelineCosts& pipeline);

}  // namespace simrun
