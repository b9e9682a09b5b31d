#pragma once

#include <cstdint>
#include <optional>

#include "configs/job.h"

namespace simrun {

// In how many parts a layout of one's own cuts the samples of a microbatch of all data-parallel ranks, and
// each sequence, where an operator's result depends on which samples a rank has: batch norm, a router with a
// balance loss (of sequences one by one: no more than the sequence), and what sends tokens to experts of a
// capacity.
struct MicrobatchParts {
  std::optional<std::int64_t> batch, sequence;  // nothing: no operator depends on them
  bool is_zigzag = false;                       // ranks have two blocks of a sequence
  bool operator==(const MicrobatchParts&) const = default;
};

// Nothing where the layout is the strategy's or no operator is of these.
//
// Throws std::invalid_argument where no single rank computes the same: operators with unlike parts; and what
// lower_model() throws.
std::optional<MicrobatchParts> microbatch_parts(const Job& job);

}  // namespace simrun
