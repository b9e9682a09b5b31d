#pragma once

#include <array>
#include <vector>

#include "schedules/op.h"

namespace simrun {

// What a rank issues, in order: its compute passes and, between them, the ends of pipeline transfers.
enum class StepKind : std::uint8_t {
  compute,
  send_forward,
  recv_forward,
  send_backward,
  recv_backward,
  sum_gradients,
  send_lent,  // a rank's activations of a microbatch to the rank that keeps them for it
  recv_lent,  // ... there
  send_back,  // ... and from there again
  recv_returned
};
struct IssueStep {
  StepKind kind = StepKind::compute;
  // compute: the pass. Otherwise the pass that *produces* what is transferred: F of stage s (received for
  // stage s + 1), or B / I of stage s (received for stage s - 1). sum_gradients: a pass of the stage whose
  // gradients the two ranks that hold it add up; lent activations: the forward that made them. Both ends
  // carry the same op.
  Op op;
  std::uint32_t sequence = 0;  // plan-wide; compute passes carry the number of the last transfer before them
  bool operator==(const IssueStep&) const = default;
};

// Stated cost of one pass of a stage, any unit, > 0: forward, backward, backward-input, backward-weight (by
// OpKind); then of handing its result to another rank, >= 0.
using PassCosts = std::array<std::int64_t, 5>;
constexpr std::size_t pass_cost_kinds = 4;

// A rank's activations of one microbatch on their way to the rank that keeps them for a while, or back, when
// the rank has run its `after`-th op (bpipe.h).
struct ActivationMove {
  std::int32_t rank = 0;  // whose activations
  std::int32_t keeper = 0;
  std::size_t after = 0;  // op of `rank`
  std::int32_t microbatch = 0;
  bool returns = false;
};

// What a schedule exchanges beside the results of its passes.
struct OtherExchanges {
  bool sum_pairs = false;  // gradients of the stages that two ranks hold
  std::vector<ActivationMove> moves = {};
};

// Adds the sends and receives of a schedule, in an order under which a rendezvous cannot deadlock.
//
// The schedule is replayed once under the stated costs. A transfer happens at the time T when its producer
// ends; all transfers of the plan are ordered by (T, stage, microbatch, direction),
// which is their sequence, and every rank issues its ends in that order: a send behind its producer, a
// receive before the first pass of the receiver that ends later than T, so it is posted while the pass before
// its consumer still runs. The order is a topological order of the whole plan: work before a transfer on a
// rank ends at or before T, work behind it later.
//
// An overlapped pair (Op::overlaps_next) is one step of both passes' costs; nothing is issued between them.
//
// Other exchanges are ordered like transfers: the sum of a stage's gradients at the time when the later of
// its two ranks has run its last backward pass (B or W) of the stage, a move of activations at the end of its
// op.
//
// costs[stage]. REQUIRES: the schedule is complete and causal (throws std::logic_error naming the stuck ops
// if not). No transfer is made where producer and consumer stage lie on one rank. O(ops log ops).
std::vector<std::vector<IssueStep>> add_send_recv(const Schedule& schedule,
                                                  const std::vector<PassCosts>& costs,
                                                  const OtherExchanges& others = {});

}  // namespace simrun
