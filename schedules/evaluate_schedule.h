#pragma once

#include <string>
#include <vector>

#include "schedules/pipeline_schedule.h"

namespace simrun {

// A schedule alone: every rank runs its list in order, each op as early as its inputs and its rank allow.
//
// F of a stage needs F of the stage before it (same microbatch, slice and direction) and, with slices, F of
// the slice before on its own stage. B or I needs its own F and B or I of the stage behind, and with slices
// that of the slice behind. W needs its own I. A result is there at the end of its op (of B: its whole),
// `communication` of the producing stage later on another rank. An overlapped pair starts when the inputs
// of both are there, takes `overlapped` of the forward's stage, and both results are there at its end.
struct ScheduleTimes {
  std::int64_t makespan = 0;
  std::vector<std::int64_t> idle;  // by rank: makespan - busy (what a step that ends together sees)
  std::vector<std::int64_t>
      span_idle;            // by rank: last end - first start - busy (the zero-bubble papers' measure)
  double bubble_ratio = 0;  // sum of idle / (ranks x makespan)
  // By rank, counted along the list: +1 at F, -1 at B or W (at_w) or at B or I (at_i); of a pair first +1.
  std::vector<int> peak_in_flight_at_w;
  std::vector<int> peak_in_flight_at_i;
  std::vector<std::vector<std::int64_t>> start;  // by rank and op; both ops of a pair have the same
  std::vector<std::vector<std::int64_t>> end;
};

// Throws std::logic_error naming the stuck ops if the lists wait for each other. O(ops).
ScheduleTimes evaluate(const Schedule& schedule, const PipelineShape& shape);

// What is wrong with a schedule that was not made by a rule here: an op twice or missing, on a rank that
// the placement does not allow, a backward before its forward, W without I, B beside I or W, an overlapped
// pair that is not F and B, or ranks that wait for each other; each with its rank and place. `grid`
// reprints the lists with "<-- ERROR HERE" behind the op. Empty: it is complete, causal and free of
// deadlock.
struct ScheduleFault {
  int rank = 0;
  std::size_t op = 0;  // index in the rank's list
  std::string message;
};
std::vector<ScheduleFault> check_schedule(const Schedule& schedule, const PipelineShape& shape);

// The placement that most ops agree with, loop before wave; bidirectional if an op runs up or neither fits
// three quarters of them. check_schedule() assumes it.
Placement likeliest_placement(const Schedule& schedule);

std::string marked_grid(const Schedule& schedule, const std::vector<ScheduleFault>& faults);

}  // namespace simrun
