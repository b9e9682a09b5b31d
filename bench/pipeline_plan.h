#pragma once

#include "schedules/plan.h"

namespace simrun {

struct PipelinePlanShape {
  int ranks = 8;
  int microbatches = 64;
  int layers_per_rank = 5;
};

// A 1F1B training step of a GPT on one node per pipeline rank, tp = 8, written by hand rather than compiled:
// 12 instructions per layer forward (60 per pass with 5 layers), 22 backward, a tensor-parallel all-reduce
// behind every attention and every MLP, sends and receives between ranks, FREEs, and one gradient all-reduce
// and optimizer at the end. For measuring engines.
Plan pipeline_plan(const PipelinePlanShape& shape);

}  // namespace simrun
