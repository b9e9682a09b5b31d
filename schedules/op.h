#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// F forward; B full backward; I backward-input and W backward-weight, the halves of B.
enum class OpKind : std::uint8_t { forward, backward, backward_input, backward_weight };

// up: the second pipeline of bidirectional schedules, whose stage 0 is on the last rank.
enum class Direction : std::uint8_t { down, up };

// One compute pass of one (virtual) stage on one microbatch, all counted from 0; in bidirectional schedules
// each direction counts its own microbatches. Spelled as PyTorch does: 3B17; a slice of the sequence behind
// the microbatch: 3F2s1.
struct Op {
  OpKind kind = OpKind::forward;
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  std::int32_t slice = 0;  // of the sequence (seq1f1b)
  Direction direction = Direction::down;
  // A forward that runs as one step with the full backward behind it in the list, the communication of each
  // behind the compute of the other. Spelled (0F8;7B3).
  bool overlaps_next = false;
  auto operator<=>(const Op&) const = default;
};

using RankOps = std::vector<Op>;        // in the order in which the rank runs them, one at a time
using Schedule = std::vector<RankOps>;  // by pipeline rank

std::string to_string(const Op& op);        // "3B17"
std::string to_string(const RankOps& ops);  // "0F0 0F1 0B0", "(0F8;7B3)"

}  // namespace simrun
