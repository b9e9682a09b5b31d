#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/pass_level_order.h"
#include "sim/pass_level_plan.h"

namespace simrun {

// When what was done is over; `posted` and `over` by transfer.
struct PassLevelTimes {
  std::vector<Picoseconds> compute,
      reduced;                            // by rank: when its compute stream and its reducing one are done
  std::vector<Picoseconds> streams;       // by rank, then stream: its last transfer
  std::vector<Picoseconds> posted, over;  // by transfer: its ends, and itself
};

struct PassLevelRun {
  Picoseconds step = 0;
  std::int64_t peak_bytes = 0;  // of the fullest rank
  std::size_t events = 0;       // of the passes that were run, not skipped
};

// Steady steps of one plan, by the rules of the fast engine (sim/simulate.h): a rank runs its entries in
// order, a transfer begins when both ends are posted and their streams are free, a pass waits where it reads
// what is sent. Who waits for whom does not hang on what passes take, so the order of what happens, the
// memory, and where that order repeats are worked out once.
class PassLevelEngine {
 public:
  // As pass_level_order(). Throws std::runtime_error if ranks wait for each other.
  explicit PassLevelEngine(PassLevelPlan plan);

  // One step. Linear in entries, at most: once a period of the schedule only moves every time by as much as
  // the period before it, the periods that are left are skipped, exactly.
  PassLevelRun run();
  // The same without skipping.
  PassLevelRun run_whole();

 private:
  PassLevelPlan plan_;
  PassLevelOrder order_;
  std::int64_t peak_bytes_ = 0;
  PassLevelTimes times_;  // of the last step
};

}  // namespace simrun
