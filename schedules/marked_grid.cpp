#include <fmt/format.h>

#include <algorithm>

#include "schedules/evaluate_schedule.h"

namespace simrun {

// What a long list keeps: its beginning if nothing is wrong with it, else this many ops around each fault.
constexpr std::size_t kept_at_start = 16;
constexpr std::size_t kept_around = 6;

static std::string marked_list(const RankOps& ops, const std::vector<std::size_t>& wrong) {
  const auto is_kept = [&](std::size_t i) {
    if (wrong.empty()) return i < kept_at_start;
    return std::ranges::any_of(
        wrong, [&](std::size_t at) { return i + kept_around >= at && i <= at + kept_around; });
  };
  const auto is_wrong = [&](std::size_t i) {
    return std::find(wrong.begin(), wrong.end(), i) != wrong.end();
  };
  std::string text;
  bool skipping = false;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool pair = ops[i].overlaps_next && i + 1 < ops.size();
    if (!is_kept(i)) {
      if (!skipping) text += " ...";
      skipping = true;
      continue;
    }
    skipping = false;
    const auto first = ops.begin() + static_cast<std::ptrdiff_t>(i);
    text += ' ' + to_string(RankOps(first, first + (pair ? 2 : 1)));
    if (is_wrong(i) || (pair && is_wrong(i + 1))) text += " <-- ERROR HERE";
    if (pair) ++i;
  }
  if (is_wrong(ops.size())) text += " <-- ERROR HERE";
  return text;
}

std::string marked_grid(const Schedule& schedule, const std::vector<ScheduleFault>& faults) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    std::vector<std::size_t> wrong;
    for (const ScheduleFault& fault : faults)
      if (fault.rank == static_cast<int>(rank)) wrong.push_back(fault.op);
    text += fmt::format("rank {}:{}\n", rank, marked_list(schedule[rank], wrong));
  }
  return text;
}

}  // namespace simrun
