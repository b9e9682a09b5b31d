#pragma once

#include "schedules/plan.h"

namespace simrun {

// A small legal Plan, written by hand: 2 pipeline ranks of 2 tensor-parallel GPUs, one 4 x 4 matrix each, 3
// microbatches in 1F1B order. Transfers and FREEs of what was sent are entries of their own.
//
//   rank 0: forward INIT a, y = a w0, SEND y, FREE y                backward RECV dx, dw0 += a dx, FREE a, dx
//   rank 1: forward RECV y, z = y w1       backward dx = z w1, dw1 += y z, FREE y, z, SEND dx, FREE dx
//   both:   step squares of dw, ALL_REDUCE of the norm over both ranks, Adam, FREE norm
// In all steps but the first, rank 0 gathers w0 from its shards.
Plan two_stage_plan(int microbatches = 3);

// Its segments, buffers and channels, for tests that break it.
enum TwoStageSegment : Index {
  forward_0,
  send_y,
  free_y,
  recv_dx,
  backward_0,
  step_0,
  recv_y,
  forward_1,
  backward_1,
  send_dx,
  free_dx,
  step_1,
  gather_0,
};
enum TwoStageBuffer : Index {
  weight_0,
  weight_1,
  input_a,
  output_y,
  gradient_dx_0,
  sum_0,
  received_y,
  output_z,
  gradient_dx_1,
  sum_1,
  norm_0,
  norm_1,
  shard_0,
  view_0
};

}  // namespace simrun
