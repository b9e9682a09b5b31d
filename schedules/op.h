#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// F forward; B full backward; I backward-input and W backward-weight, the halves of B.
enum class OpKind : std::uint8_t { forward, backward, backward_input, backward_weight };

// One compute pass of one (virtual) stage on one microbatch, all counted from 0. Spelled as PyTorch does:
// 3B17.
struct Op {
  OpKind kind = OpKind::forward;
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  auto operator<=>(const Op&) const = default;
};

using RankOps = std::vector<Op>;        // in the order in which the rank runs them, one at a time
using Schedule = std::vector<RankOps>;  // by pipeline rank

std::string to_string(const Op& op);        // "3B17"
std::string to_string(const RankOps& ops);  // "0F0 0F1 0B0"

}  // namespace simrun
