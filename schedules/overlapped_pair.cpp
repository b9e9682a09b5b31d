#include "schedules/overlapped_pair.h"

#include <cstddef>

namespace simrun {
namespace {

// Ends of the pieces: behind every communication and what is freed right after it. A step of a ring, a SEND
// and its RECV, stays whole: each stream has its ends in the order of the steps, and so must the other stream
// of the GPU at the other end.
std::vector<std::size_t> piece_ends(const std::vector<Instruction>& instructions) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    if (!is_communication(instructions[i].opcode)) continue;
    bool sent = instructions[i].opcode == Opcode::send;
    const auto belongs = [&](const Instruction& next) {
      return next.opcode == Opcode::free || (sent && next.opcode == Opcode::recv);
    };
    for (; i + 1 < instructions.size() && belongs(instructions[i + 1]); ++i)
      sent = sent && instructions[i + 1].opcode != Opcode::recv;
    ends.push_back(i + 1);
  }
  if (ends.empty() || ends.back() < instructions.size()) ends.push_back(instructions.size());
  return ends;
}

}  // namespace

std::vector<Instruction> overlap(const std::vector<Instruction>& forward,
                                 const std::vector<Instruction>& backward) {
  const std::vector<std::size_t> forward_ends = piece_ends(forward), backward_ends = piece_ends(backward);
  std::vector<Instruction> merged;
  merged.reserve(forward.size() + backward.size());
  std::size_t f = 0, b = 0, from_forward = 0, from_backward = 0;
  const auto take = [&merged](const std::vector<Instruction>& list, std::size_t& from, std::size_t end,
                              std::uint8_t binding) {
    for (; from < end; ++from) {
      merged.push_back(list[from]);
      merged.back().binding = binding;
    }
  };
  while (f < forward_ends.size() || b < backward_ends.size()) {
    // Piece i of n stands at (2 i + 1) / 2 n of the whole.
    const bool forward_next =
        b == backward_ends.size() ||
        (f < forward_ends.size() && (2 * f + 1) * backward_ends.size() <= (2 * b + 1) * forward_ends.size());
    if (forward_next)
      take(forward, from_forward, forward_ends[f++], 0);
    else
      take(backward, from_backward, backward_ends[b++], 1);
  }
  return merged;
}

}  // namespace simrun
