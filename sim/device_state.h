#pragma once

#include <algorithm>
#include <vector>

#include "sim/accounting.h"
#include "sim/compiled_program.h"
#include "sim/memory.h"

namespace simrun {

// The n-th operation of a stream, n from 1.
struct OperationNumber {
  std::uint8_t stream = 0;
  Index ordinal = 0;
};

// The last write of a buffer by one stream: by which operation, and, once that has ended, its end and the
// pipeline transfer that it was or that its data came by (p2p.end == 0: none).
struct Slot {
  Picoseconds end = 0;
  Span p2p;
  OperationNumber writer;
};

// An instruction of another stream than compute that has been issued and has not ended.
struct IssuedOperation {
  Picoseconds ready = 0;                // the compute issued before it and the inputs known so far
  Span p2p;                             // the latest pipeline transfer by which an input came
  Index entry = 0;                      // into CompiledRank::entries
  Index step = 0;                       // into CompiledRank::steps
  Index issue = 0;                      // how many operations the GPU had issued before
  std::vector<OperationNumber> awaits;  // writers of inputs that have not ended
};

// First in, first out. Only the head can be at a meeting.
struct StreamState {
  Picoseconds tail = 0;              // end of the last operation that ended
  Index issued = 0, ended = 0;       // operations
  Index waited_for = 0;              // the last one that a blocking device waits for
  Picoseconds waited_until = 0;      // its end
  Span arrival;                      // of those, the last pipeline transfer to this rank
  bool posted = false;               // the head waits for partners or for its transfer
  Picoseconds posted_at = 0;         // when it was ready
  Index next_at_meeting = no_index;  // stream of another GPU, by its number in the whole engine
  std::vector<IssuedOperation> queue;
  std::size_t head = 0;

  bool empty() const { return head == queue.size(); }
  IssuedOperation& front() { return queue[head]; }
  const IssuedOperation& front() const { return queue[head]; }
  // What has ended makes room now and then: a queue that is never empty stays as short as it is in flight.
  void pop() {
    constexpr std::size_t worth_it = 16;
    if (++head < queue.size() && (head < worth_it || 2 * head < queue.size())) return;
    queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(head));
    head = 0;
  }
};

// One simulated GPU: where it is in its program and the times of its streams.
struct DeviceState {
  explicit DeviceState(const std::vector<Stream>& streams_of_plan)
      : streams(streams_of_plan.size()), accounting(streams_of_plan) {}

  const CompiledRank* code = nullptr;
  Index number = 0;      // among all simulated GPUs
  Index program = 0;     // of the plan
  Index local_gpu = 0;   // among the simulated GPUs of its pipeline rank
  std::int64_t gpu = 0;  // of the cluster
  Index entry = 0;       // into CompiledRank::entries
  Index step = 0;        // of the entry's segment
  Picoseconds compute_tail = 0;
  Picoseconds pass_start = 0;
  std::vector<StreamState> streams;
  std::vector<Slot> slots;
  bool parked = false;
  OperationNumber parked_on;  // what the next compute instruction, or the end of the program, waits for
  bool finished = false;
  Index issued = 0;    // operations of all streams
  Index awaiting = 0;  // issued operations that await others
  Accounting accounting;

  bool ended(OperationNumber operation) const { return operation.ordinal <= streams[operation.stream].ended; }
  void park(OperationNumber on) {
    parked = true;
    parked_on = on;
  }
  // Issue number of the oldest operation that has not ended; no_index if all have.
  Index first_outstanding() const {
    Index first = no_index;
    for (std::size_t s = 1; s < streams.size(); ++s)
      if (!streams[s].empty()) first = std::min(first, streams[s].front().issue);
    return first;
  }
};

}  // namespace simrun
