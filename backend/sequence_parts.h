#pragma once

#include <algorithm>
#include <cstdint>

namespace simrun {

// Parts of a sequence for each of which something counts, as the ranks of a run that is compared with would
// have them: `count` equal ones, in order; with `zigzag` ranks of context parallelism the blocks r and
// 2 zigzag - 1 - r of rank r, cut into count / zigzag.
struct SequenceParts {
  std::int64_t count = 1, zigzag = 0;

  // The part of a token at this place of a sequence of so many.
  std::int64_t of(std::int64_t place, std::int64_t tokens) const {
    if (zigzag == 0) return place * count / tokens;
    const std::int64_t width = tokens / (2 * zigzag), block = place / width;
    const std::int64_t rank = std::min(block, 2 * zigzag - 1 - block);
    const std::int64_t in_rank = place % width + (block == rank ? 0 : width);
    return (rank * 2 * width + in_rank) * count / tokens;
  }
};

}  // namespace simrun
