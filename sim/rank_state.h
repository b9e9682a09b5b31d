#pragma once

#include <array>
#include <vector>

#include "sim/accounting.h"
#include "sim/compiled_program.h"
#include "sim/memory.h"

namespace simrun {

// One exchange between pipeline ranks. Complete when all ends have arrived; it then starts when the last of
// them was ready.
struct Rendezvous {
  Picoseconds ready = 0;
  Picoseconds duration = 0;
  Index arrived = 0;
  bool complete = false;
  Picoseconds start() const { return ready; }
  Picoseconds end() const { return ready + duration; }
};

// End of the last write of a buffer by one stream, and the pipeline transfer that it was or that its data
// came by (p2p.end == 0: none). `pending`: not known before that rendezvous is complete.
struct Slot {
  Picoseconds end = 0;
  Span p2p;
  Index pending = no_index;
  bool pipeline_arrival = false;
};

struct StreamState {
  Picoseconds tail = 0;              // end of the last instruction, if nothing is pending
  Index pending = no_index;          // rendezvous of the last instruction
  Picoseconds ready = 0;             // when this rank's end of it was ready
  Index entry = 0, instruction = 0;  // it, for its record
};

// Where a rank is in its program and the times of its streams.
struct RankState {
  explicit RankState(const std::vector<Stream>& of_plan) : streams(of_plan.size()), accounting(of_plan) {
    for (Index b = 0; b < 256; ++b) selectors[2 + 2 * b] = b;
  }

  Index entry = 0;  // into CompiledRank::entries
  Index step = 0;   // of the entry's segment
  Picoseconds compute_tail = 0;
  Picoseconds pass_start = 0;
  std::vector<StreamState> streams;
  std::vector<Slot> slots;
  std::array<Index, 514> selectors{};  // see SlotReference
  Index parked_on = no_index;          // rendezvous
  bool finished = false;
  Accounting accounting;
  std::vector<Span> needed;  // pipeline transfers that the present instruction waits for
};

}  // namespace simrun
