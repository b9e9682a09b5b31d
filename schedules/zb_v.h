#pragma once

#include "schedules/op.h"

namespace simrun {

// ZB-V (Qi et al. 2024, arXiv 2401.10241, section 6): two stages per rank in V placement and a split
// backward, at 1F1B's memory on every rank.
//
// The first chunk's forwards start as deep as a rank stands before the turn, then both chunks alternate so
// that every rank runs F0, I0, W0, F1, I1, W1 in the steady state. For fewer than 2 x ranks - 1 microbatches
// the lists are those of that many, without the passes of the missing ones, which leaves bubbles.
//
// Alive to W: at most 2 x ranks (chunk, microbatch) pairs. With at least 2 x ranks - 1 microbatches and F = I
// = W no rank idles between its first and its last pass; counted to a common end, (ranks - 1) F. No simple
// form otherwise.
//
// Sources: PyTorch torch/distributed/pipelining/schedules.py ScheduleZBVZeroBubble; sail-sg/
// zero-bubble-pipeline-parallelism handcrafted_zb_v.py emits the same lists.
Schedule zb_v(int ranks, int microbatches);

}  // namespace simrun
