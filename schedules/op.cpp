#include "schedules/op.h"

#include <array>

namespace simrun {

std::string to_string(const Op& op) {
  constexpr std::array<char, 4> letters = {'F', 'B', 'I', 'W'};
  std::string text =
      std::to_string(op.stage) + letters[static_cast<std::size_t>(op.kind)] + std::to_string(op.microbatch);
  if (op.slice > 0) text += 's' + std::to_string(op.slice);
  return text;
}

std::string to_string(const RankOps& ops) {
  std::string text;
  bool inside_pair = false;
  for (const Op& op : ops) {
    if (!text.empty()) text += inside_pair ? ';' : ' ';
    if (op.overlaps_next && !inside_pair) text += '(';
    text += to_string(op);
    if (inside_pair) text += ')';
    inside_pair = op.overlaps_next && !inside_pair;
  }
  if (inside_pair) text += ";)";  // nothing follows: check_schedule() reports it
  return text;
}

}  // namespace simrun
