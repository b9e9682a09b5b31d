#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// The ends of one exchange that have arrived. It starts when the last of them was ready.
struct Rendezvous {
  Picoseconds ready = 0;
  Picoseconds duration = 0;   // of the end that takes longest
  Index exchange = no_index;  // that end's
  Index arrived = 0;
  Index waiting = no_index;  // the streams at it, chained by StreamState::next_at_meeting
  bool over = false;
};

}  // namespace simrun
