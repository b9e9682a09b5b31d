#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Chimera with one pipeline in each direction and direct concatenation (Li and Hoefler 2021, arXiv
// 2107.06925).
//
// Rounds of `ranks` microbatches, half down and half up. On a grid of slots of equal length the j-th
// microbatch of its direction in round q runs on stage s of its pipeline forward in slot 2 ranks q + 2 j + s
// and backward in slot 2 ranks q + 2 j + 2 ranks - 1 - s; a rank runs its passes in slot order. The two
// pipelines fall on slots of different parity and never meet, for an even number of ranks. Every stage's
// weights live on two ranks, whose gradients must be summed.
//
// Alive on rank r: min(r, ranks - 1 - r) + ranks / 2 + 1 (stage, microbatch) pairs if there are two rounds or
// more. Idle with k rounds: (ranks - 2)(max(F, B) + (k - 1) |B - F|); the paper's bubble is the case F = B.
// Its forward doubling and backward halving are other schedules.
//
// REQUIRES: ranks even, microbatches (of both directions together) a multiple of ranks.
// Source: the grid is Shigangli/Chimera chimera_pipeline_rank.py's, which drops passes for some sizes.
Schedule chimera(int ranks, int microbatches);

// "" if the shape obeys the REQUIRES.
std::string chimera_refusal(const PipelineShape& shape);

}  // namespace simrun
