#pragma once

#include <cstdint>
#include <optional>

#include "configs/job.h"

namespace simrun {

// In how many parts a layout of one's own cuts the samples of a microbatch of all data-parallel ranks, and
// each sequence, where an operator's result depends on which samples a rank has: batch norm, a router with a
// balance loss, and what sends tokens to experts of a capacity.
struct MicrobatchParts {
  std::int64_t batch = 1, sequence = 1;
  bool is_zigzag = false;  // ranks have two blocks of a sequence, as context parallelism deals them
  bool operator==(const MicrobatchParts&) const = default;
};

// Nothing where the layout is the strategy's or no operator is of these.
//
// Throws std::invalid_argument where no single rank computes the same: layers of unlike parts; and what
// lower_model() throws.
std::optional<MicrobatchParts> microbatch_parts(const Job& job);

}  // namespace simrun
