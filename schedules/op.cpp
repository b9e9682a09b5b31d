#include "schedules/op.h"

#include <array>

namespace simrun {

std::string to_string(const Op& op) {
  constexpr std::array<char, 4> letters = {'F', 'B', 'I', 'W'};
  return std::to_string(op.stage) + letters[static_cast<std::size_t>(op.kind)] +
         std::to_string(op.microbatch);
}

std::string to_string(const RankOps& ops) {
  std::string text;
  for (const Op& op : ops) {
    if (!text.empty()) text += ' ';
    text += to_string(op);
  }
  return text;
}

}  // namespace simrun
