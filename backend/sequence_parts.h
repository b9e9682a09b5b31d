#pragma once

#include <algorithm>
#include <cstdint>

namespace simrun {

// The parts into which ranks would cut a sequence that one rank has: `count` equal ones. With `zigzag` ranks
// (1: none) each of these has the blocks r and 2 zigzag - 1 - r of 2 zigzag, and is cut further (DimPart).
class SequenceParts {
 public:
  SequenceParts(std::int64_t count, std::int64_t zigzag, std::int64_t length)
      : per_rank_(count / zigzag), zigzag_(zigzag), of_rank_(length / zigzag) {}

  // Of a place in the sequence.
  std::int64_t operator()(std::int64_t place) const {
    if (zigzag_ == 1) return place * per_rank_ / of_rank_;
    const std::int64_t size = of_rank_ / 2, block = place / size;
    const bool is_far = block >= zigzag_;
    const std::int64_t rank = is_far ? 2 * zigzag_ - 1 - block : block;
    const std::int64_t local = place % size + (is_far ? size : 0);
    return rank * per_rank_ + local * per_rank_ / of_rank_;
  }

 private:
  std::int64_t per_rank_, zigzag_, of_rank_;  // of_rank_: places
};

}  // namespace simrun
