#include <algorithm>
#include <set>

#include "schedules/chunk_segments.h"

// Bidirectional schedules: every stage is on a pair of pipeline ranks.
namespace simrun {

// The pipeline ranks that hold a stage in a bidirectional schedule, ascending.
std::vector<std::int32_t> ChunkSegments::holders_of(int stage) const {
  std::vector<std::int32_t> pair{placement_.rank(stage, Direction::down),
                                 placement_.rank(stage, Direction::up)};
  std::sort(pair.begin(), pair.end());
  return pair;
}

// Where tied embeddings are on more than one pair of ranks, each of a pair sums them with one rank of every
// other pair; the pair's own sum then has each of them once.
void ChunkSegments::sum_over_pairs(int rank, StepContext& step) const {
  std::set<std::vector<std::int32_t>> pairs;
  for (const std::int32_t stage : model_.partition.tied_stages) pairs.insert(holders_of(stage));
  if (pairs.size() < 2) return;
  for (std::size_t of_pair : {0u, 1u}) {
    std::vector<std::int32_t> group;
    for (const std::vector<std::int32_t>& pair : pairs) group.push_back(pair[of_pair]);
    if (std::find(group.begin(), group.end(), rank) == group.end()) continue;
    std::sort(group.begin(), group.end());
    step.tied_ranks = group;
    step.tied_group = static_cast<Index>(of_pair);
  }
}

}  // namespace simrun
