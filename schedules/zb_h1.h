#pragma once

#include "schedules/op.h"

namespace simrun {

// Zero Bubble's ZB-H1, also ZB-1p (Qi et al. 2024, arXiv 2401.10241, section 2.3): 1F1B with the backward
// split, within 1F1B's memory on rank 0.
//
// Rank r warms up with min(ranks - 1 - r, microbatches) forwards, then runs one forward, one I, and from its
// r-th backward on the oldest W; the W left over fill the drain. It is interleaved_zb with 1 virtual stage.
//
// Idle per rank with uniform stages, at least `ranks` microbatches and W <= min(F, I): (ranks - 1)(F + I -
// W). Alive to W: min(microbatches, ranks) on every rank; to I: min(microbatches, ranks - r).
//
// Sources: PyTorch torch/distributed/pipelining/schedules.py ScheduleInterleavedZeroBubble with one stage per
// rank (which asks for equal rounds of microbatches; the order does not). Megatron-LM patches that split only
// the backwards of the drain ("quick start", zbpp_light) reach the same makespan.
Schedule zb_h1(int ranks, int microbatches);

}  // namespace simrun
