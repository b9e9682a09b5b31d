#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

// Which chunk binding b of a segment's entries is bound to; no_index: none. Binding 0 has the segment's own
// chunk. That of binding 1 (the backward of an overlapped pair) stands in the entries, which agree in it
// because the instructions name that chunk's buffers.
class BoundChunks {
 public:
  explicit BoundChunks(const Plan& plan);
  Index of(Index segment, std::uint8_t binding = 0) const;

 private:
  const Plan& plan_;
  std::vector<Index> second_;  // by segment
};

// nullptr: the entry has no such binding.
const Binding* binding_of(const Program& program, const Entry& entry, std::uint8_t which);

// Two pipelines over the same stages: a chunk's index is then its Direction.
bool is_bidirectional(const Plan& plan);

}  // namespace simrun
