#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// What ranks are doing that cannot go on, for the message that ends a run.
struct RankWaits {
  struct Wait {
    std::int64_t rank = 0, from = 0;
    std::string what;  // what the rank is at: "step 0, entry 3 ..."
  };
  std::vector<Wait> waits;          // by rank
  std::vector<std::int64_t> ended;  // ranks that have run to their end, ascending
};

// "rank 0 waits for rank 1 in ...; rank 1 waits for rank 2, which has ended, in ...; and 3 more"; empty: none
// waits.
std::string who_waits(const RankWaits& ranks);

}  // namespace simrun
