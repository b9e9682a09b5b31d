#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/pass_level_plan.h"

namespace simrun {

// first_end: one end of a transfer is posted; last_end: the other, and its streams let it begin at once;
// second_end and transfer: they do not at once.
enum class PassLevelEventKind : std::uint8_t { pass, first_end, second_end, last_end, transfer };

struct PassLevelEvent {
  PassLevelEventKind kind = PassLevelEventKind::pass;
  Index segment = 0;                // pass: its own; last_end, transfer: the sender's end
  Index other = 0;                  // last_end, transfer: the receiver's end
  std::int32_t transfer = -1;       // pass: whose result it needs; negative: none
  std::int32_t rank = -1;           // of a pass or an end
  std::int32_t from = -1, to = -1;  // last_end, transfer: streams, numbered by rank and then stream
};

// Events [begin, begin + times x length) repeat every `length`, with numbers of transfers higher by `shift`.
struct PassLevelPeriod {
  std::size_t begin = 0, length = 0, times = 0;
  std::int32_t shift = 0;
  // What events from `begin` on read of those before, beyond the times of the ranks and streams below: ends
  // that are posted and transfers that are over.
  std::vector<std::int32_t> posted, over;
  // Whose passes, streams and reductions the period moves, and by rank the latest earliest_end of its passes.
  std::vector<std::int32_t> ranks, streams, reducing;
  std::vector<Picoseconds> earliest_ends;
};

// All events of the passes in an order in which each comes behind those it waits for, and how those around
// the middle repeat, if they do.
struct PassLevelOrder {
  std::vector<PassLevelEvent> events;
  PassLevelPeriod period;  // of length 0: none
};

// Whatever passes take, they wait for the same events; so the order holds for all durations. Sorts the
// events, and looks for periods of a bounded number of lengths, each in linear time. Throws
// std::runtime_error if ranks wait for each other.
PassLevelOrder pass_level_order(const PassLevelPlan& plan);

}  // namespace simrun
