#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/execute.h"
#include "schedules/plan.h"

// Small plans whose every instruction is an experiment, run as any other plan is: what an instruction takes
// in them is what it takes in a job, operands, order and bookkeeping included.
namespace simrun {

// Instructions `first` to `last` of the plan's only segment measure `what` of these sizes.
struct Experiment {
  std::string what;
  std::vector<std::int64_t> sizes;
  Index first = 0, last = 0;
};
struct CalibrationPlan {
  Plan plan;
  std::vector<Experiment> experiments;
};

// On one rank, all in f32 or f64 as the device has it:
//   overhead            {}: a sum of two numbers, several times
//   product             {m, n, k}: three times, as the forward pass, the gradient of its input and that of
//                       its weight (which adds) make it
//   attention, attention_backward  {sequence, head_dim}: 4 heads, flash, causal
CalibrationPlan kernel_experiments();

// On `ranks` ranks: all_reduce, all_gather, reduce_scatter, all_to_all and send (to the next rank, all at
// once), each {bytes}, the bytes of f32 that the simulator counts (sim/collective_cost.h).
CalibrationPlan exchange_experiments(std::int64_t ranks);

// Seconds of one experiment, by repetition.
struct ExperimentSeconds {
  std::vector<double> work;  // of the rank that works longest, by its thread's clock
  std::vector<double> wall;  // from when the last rank begins to when the last ends
};
// By experiment. Throws std::runtime_error with the reason if a run fails.
std::vector<ExperimentSeconds> run_experiments(const CalibrationPlan& of, ExecutionDevice device,
                                               int repetitions);

}  // namespace simrun
