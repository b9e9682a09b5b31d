#pragma once

#include <string>

#include "schedules/instruction_costs.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Share of the step that links shared by transfers may be worth before SimGrid is asked.
constexpr double tolerated_contention = 0.01;

// Which engine times the plan. `automatic` takes the fast one and turns to SimGrid where the fast one's
// bound on the error from shared links exceeds 1 % of the step.
enum class EngineChoice : std::uint8_t { automatic, fast, simgrid };

struct SimulateOptions {
  Detail detail = Detail::totals;
  EngineChoice engine = EngineChoice::fast;
  // Replay: what instructions took where the plan ran, in place of their prices. Must outlive the call.
  const InstructionCosts* measured = nullptr;
  // false, with the fast engine: nobody asks which transfers share links, which takes most of the time of
  // plans of many GPUs; Timeline::contention_bound stays 0 and Timeline::links empty.
  bool looks_for_contention = true;
  bool times_first_step = true;  // false: Timeline::first_step is as long as any other
};

// Runs one steady step (and the first one, for its time). Kernel times come from sim/kernel_cost.h,
// communication from sim/collective_flows.h on the plan's real placement, memory from sim/memory.h.
//
// A plan's extent tables give each GPU the times and the memory of its own extents and work in each
// microbatch; a communication takes as many bytes as the member of its group that has most.
//
// fast: one representative GPU per pipeline rank where all its GPUs have equal times, else one of those that
// are alike in all they meet (sim/symmetry.h; every GPU where kernels jitter or GPUs straggle); streams run
// to block, linear in the executed instructions; every transfer has its links for itself.
//
// simgrid: likewise one of all GPUs that are alike; transfers that can share a link are flows in SimGrid, in
// a process of their own.
//
// Throws std::runtime_error naming who waits for whom if the plan deadlocks (a linted plan cannot),
// WorkerError (sim/worker.h) if the SimGrid process dies, std::range_error if the step is too long for
// integer picoseconds, std::invalid_argument if the fast engine is asked for and other jobs use links of the
// plan's.
Timeline simulate(const Plan& plan, const SimulateOptions& options = {});

// The steady step alone, by the fast engine, and as if no other job were there: what plans are compared by
// where many are. Throws as simulate() does of deadlocks and long steps.
Picoseconds step_without_contention(const Plan& plan);

}  // namespace simrun
