#include "traces/imported_totals.h"

#include <algorithm>
#include <array>
#include <vector>

namespace simrun {
namespace {

enum class Busy : std::uint8_t { compute, collective, pipeline };

struct Change {
  std::int64_t at = 0;
  Busy what = Busy::compute;
  int by = 0;
};

Busy busy_with(const ImportedKernel& kernel) {
  if (kernel.phase != ImportedPhase::communication) return Busy::compute;
  const bool is_p2p = kernel.kind.opcode == Opcode::send || kernel.kind.opcode == Opcode::recv;
  return is_p2p ? Busy::pipeline : Busy::collective;
}

}  // namespace

RankTotals imported_totals(const ImportedRank& rank, std::int64_t run_ns) {
  const std::int64_t step = rank.step.length_ns;
  std::vector<Change> changes;
  std::int64_t last = 0;
  for (const ImportedKernel& kernel : rank.kernels) {
    const std::int64_t begin = std::clamp<std::int64_t>(kernel.start_ns, 0, step);
    const std::int64_t end = std::clamp<std::int64_t>(kernel.start_ns + kernel.duration_ns, begin, step);
    changes.push_back({begin, busy_with(kernel), +1});
    changes.push_back({end, busy_with(kernel), -1});
    last = std::max(last, end);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  RankTotals totals;
  std::array<int, 3> running{};
  std::int64_t now = 0;
  const auto count = [&](std::int64_t until) {
    const Picoseconds span = (until - now) * 1000;
    const bool computes = running[0] > 0, talks = running[1] > 0, sends = running[2] > 0;
    constexpr auto data = static_cast<std::size_t>(Traffic::data),
                   pipe = static_cast<std::size_t>(Traffic::pipeline);
    if (computes) {
      totals.compute += span;
      if (talks) totals.hidden[data] += span;
      if (sends) totals.hidden[pipe] += span;
    } else if (talks) {
      totals.exposed[data] += span;
    } else {
      const BubbleCause cause = sends         ? BubbleCause::p2p
                                : now >= last ? BubbleCause::drain
                                              : BubbleCause::imbalance;
      totals.bubble[static_cast<std::size_t>(cause)] += span;
    }
    now = until;
  };
  for (const Change& change : changes) {
    count(change.at);
    running[static_cast<std::size_t>(change.what)] += change.by;
  }
  count(std::max(run_ns - rank.late_ns, now));
  totals.bubble[static_cast<std::size_t>(BubbleCause::warm_up)] = rank.late_ns * 1000;
  return totals;
}

}  // namespace simrun
