#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Seq1F1B (Sun et al. 2024, arXiv 2406.03488): 1F1B over k slices of every sequence.
//
// A unit is one slice of one microbatch, n = microbatches x k of them. Forwards run the slices of a
// microbatch in order, backwards from its last slice to the first, since a slice attends to those before it.
// Rank r warms up with min(ranks - 2 - r + k, n) forward units, then alternates one forward with one
// backward, then drains.
//
// Alive on rank r: min(n, ranks - 1 - r + k) slices. Idle per rank with uniform slices: (ranks - 1)(F + B)
// where F, B are the times of one slice; real slices are not uniform, the later ones attend to more.
//
// Source: sail-sg/zero-bubble-pipeline-parallelism megatron/core/pipeline_parallel/zerobubble/scheduler/
// seq1f1b.py.
Schedule seq1f1b(const PipelineShape& shape);

std::string seq1f1b_refusal(const PipelineShape& shape);

}  // namespace simrun
