#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// One row of a table of collectives: a size over so many ranks.
struct CollectivePoint {
  std::int64_t nodes = 0, ranks = 0, bytes = 0;
  std::string algorithm, protocol;
  double time_s = 0, algbw = 0, busbw = 0;  // bytes/s
};
struct CollectiveCurves {
  std::string collective, cluster;
  std::vector<CollectivePoint> points;  // by nodes, then bytes
};

// For people, as nccl-tests print them: a block for each number of nodes, microseconds and GB/s, and bus
// bandwidth over sizes as bars.
std::string collective_text(const CollectiveCurves& curves);
// For programs: a list of {collective, bytes, nodes, ranks, algorithm, time_s, algbw, busbw, protocol}.
std::string collective_json(const CollectiveCurves& curves);
}  // namespace simrun
