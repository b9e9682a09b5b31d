#include "schedules/timeline.h"

#include <numeric>

namespace simrun {

const char* to_string(BubbleCause cause) {
  static constexpr std::array<const char*, bubble_cause_count> names = {"warm_up", "imbalance", "drain",
                                                                        "p2p"};
  return names[static_cast<std::size_t>(cause)];
}

Picoseconds RankTotals::exposed_total() const {
  return std::accumulate(exposed.begin(), exposed.end(), Picoseconds{0});
}

Picoseconds RankTotals::bubble_total() const {
  return std::accumulate(bubble.begin(), bubble.end(), Picoseconds{0});
}

}  // namespace simrun
