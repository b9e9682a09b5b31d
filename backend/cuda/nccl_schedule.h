#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/tensor_part.h"
#include "backend/transport.h"
#include "schedules/plan.h"

// A plan's communication as calls of NCCL: pure functions of the plan, so that every rank knows what all
// call.
//
//  * A communicator per group of ranks that any collective has, per ring, and per pipeline edge and direction
//  (a
//    channel of its own: what goes forward never waits for what comes back).
//  * all_reduce, all_gather and reduce_scatter are NCCL's where the members' parts are equal pieces in order;
//    what else moves, moves as sends and receives of one ncclGroup.
//  * A SEND along a ring goes with the next RECV there, as one ncclGroup: NCCL would wait for itself around
//  the ring
//    otherwise. So every SEND needs a RECV of its own behind it.
namespace simrun::cuda {

enum class NcclKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, send, recv };

// Ranks of the plan, in the order of their ranks in the communicator.
struct NcclCommunicator {
  enum class Use : std::uint8_t { collectives, ring, edge };
  Use use = Use::collectives;
  std::vector<std::int64_t> ranks;
  auto operator<=>(const NcclCommunicator&) const = default;
};

// One call. `count`: elements, of what a rank sends (all_gather), receives (reduce_scatter) or both.
struct NcclCall {
  NcclKind kind = NcclKind::send;
  Dtype dtype = Dtype::fp32;
  std::int64_t count = 0;
  int peer = -1;  // send, recv: rank in the communicator
  Reduction reduction = Reduction::sum;
  bool operator==(const NcclCall&) const = default;
};

// What a rank does for one operand of a communication instruction.
struct NcclMove {
  NcclCommunicator communicator;
  int self = 0;  // the rank's own number there
  Dtype dtype = Dtype::fp32;
  std::size_t operand = 0;
  // Of a collective of NCCL's own: one call. Else the pieces, each a call, but for the rank's own.
  std::vector<NcclCall> whole;
  // Parts of the input by who gets them and of the output by who has them, in the communicator's order.
  struct Piece {
    int member = 0;
    TensorPart part;
  };
  std::vector<Piece> sends, receives;
  bool adds = false;  // reduce_scatter by pieces: the arriving ones are joined, in order
  Reduction reduction = Reduction::sum;
  std::vector<NcclCall> calls() const;
};

// The moves of a communication instruction on a rank. Throws std::invalid_argument for those that NCCL does
// not do (parameter servers).
std::vector<NcclMove> nccl_moves(const Plan& plan, const Instruction& what, const RankPlace& place,
                                 std::int32_t microbatch);

// Whether an instruction's calls are held back until the next RECV along the same ring.
bool waits_for_receive(const Plan& plan, const Instruction& what);

// Every communicator of the plan, in the order in which all ranks make them.
std::vector<NcclCommunicator> nccl_communicators(const Plan& plan);

// A rank's calls of one step in its order: one after the other, each group as one.
struct NcclGroupOfCalls {
  NcclCommunicator communicator;
  std::vector<NcclCall> calls;
  Index entry = 0, instruction = 0;
  MessageTag tag = {};  // of the instruction: the same on all that call
};
std::vector<NcclGroupOfCalls> nccl_calls(const Plan& plan, const RankPlace& place, std::int64_t step);

}  // namespace simrun::cuda
