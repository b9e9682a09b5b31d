#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// How far the ranks of a schedule get, each in the order of its list, each op as early as its inputs and its
// rank allow (evaluate_schedule.h states the rules).
struct ListRun {
  std::vector<std::vector<std::int64_t>> start;  // by rank and op, of the ops that ran
  std::vector<std::vector<std::int64_t>> end;
  std::vector<std::size_t> stuck_at;  // by rank: first op that never got its inputs; size of the list: none
  bool finished = true;               // every list ran to its end
};

// REQUIRES: no negative number in an op; stage_times, if given, for every stage. O(ops + stages x
// microbatches x slices).
ListRun run_lists(const Schedule& schedule, const PipelineShape& shape);

// What an op waits for, by kind: inputs on any rank, in the order in which they are looked at.
struct OpInput {
  bool forward = true;  // a stage's output, else the gradient of its input
  std::int32_t stage = 0;
  std::int32_t slice = 0;  // microbatch and direction are the op's own
};
struct OpInputs {
  std::array<OpInput, 3> of = {};
  std::size_t count = 0;
};
OpInputs inputs_of(const Op& op, int last_stage, int last_slice);

}  // namespace simrun
