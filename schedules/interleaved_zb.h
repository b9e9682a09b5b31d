#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Interleaved 1F1B with the backward split (Qi et al. 2024, arXiv 2401.10241, over virtual stages).
//
// The passes of a rank are the rows of virtual_microbatches() with group size g; n = microbatches x
// virtual_stages of each. Rank r warms up with w = min(n, (ranks - 1 - r) + (virtual_stages - 1) g) forwards,
// one per hop where interleaved_1f1b runs two, since I hands its gradient on before W. Then one forward, one
// I; W follows in the order of I, delayed by r backwards, and fills the drain.
//
// Idle per rank with uniform chunks, at least `ranks` microbatches and W <= min(F, I): (ranks - 1)(F + I -
// W). Alive to W: min(n, (virtual_stages - 1) g + ranks) on every rank; to I: `ranks - r` instead of `ranks`.
//
// Source: PyTorch torch/distributed/pipelining/schedules.py ScheduleInterleavedZeroBubble.
Schedule interleaved_zb(const PipelineShape& shape);

// The same warm-up with every W right behind its I, so that activations live as shortly as the order allows
// and groups may be smaller than the ranks: fewer activations for more bubble (Wan et al. 2025,
// "PipeOffload", without its offload).
//
// Alive to W on rank r: min(n, (virtual_stages - 1) g + ranks - r).
// Source: sail-sg/zero-bubble-pipeline-parallelism megatron/core/pipeline_parallel/zerobubble/scheduler/
// group_interleaved_1f1b.py (a search there; these are its lists for the sizes compared).
Schedule grouped_interleaved_1f1b(const PipelineShape& shape);

// The group rules of virtual_microbatches.h; the second also takes a g that divides the microbatches if 2 g +
// 1 >= ranks: with smaller ones ranks wait for each other. "" if the shape obeys them.
std::string interleaved_zb_refusal(const PipelineShape& shape);
std::string grouped_interleaved_refusal(const PipelineShape& shape);

}  // namespace simrun
