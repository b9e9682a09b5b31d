#include "traces/imported_totals.h"

#include <algorithm>
#include <array>
#include <vector>

namespace simrun {
namespace {

struct Change {
  Picoseconds at = 0;
  BusyWith what = BusyWith::compute;
  int by = 0;
};

}  // namespace

BusyWith busy_with(bool communicates, std::optional<Opcode> opcode) {
  if (!communicates) return BusyWith::compute;
  return opcode == Opcode::send || opcode == Opcode::recv ? BusyWith::pipeline : BusyWith::collective;
}

RankTotals totals_of(const std::vector<BusySpan>& spans, Picoseconds length) {
  std::vector<Change> changes;
  Picoseconds last = 0;
  for (const BusySpan& span : spans) {
    const Picoseconds begin = std::clamp<Picoseconds>(span.begin, 0, length);
    const Picoseconds end = std::clamp<Picoseconds>(span.end, begin, length);
    changes.push_back({begin, span.what, +1});
    changes.push_back({end, span.what, -1});
    last = std::max(last, end);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  RankTotals totals;
  std::array<int, 3> running{};
  Picoseconds now = 0;
  const auto count = [&](Picoseconds until) {
    const Picoseconds span = until - now;
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
  count(length);
  return totals;
}

RankTotals imported_totals(const ImportedRank& rank, std::int64_t run_ns) {
  constexpr Picoseconds per_ns = 1000;
  std::vector<BusySpan> spans;
  spans.reserve(rank.kernels.size());
  for (const ImportedKernel& kernel : rank.kernels) {
    if (kernel.kind.is_of_host) continue;  // neither computes nor hides an exchange
    const std::int64_t begin = std::clamp<std::int64_t>(kernel.start_ns, 0, rank.step.length_ns);
    const std::int64_t end =
        std::clamp<std::int64_t>(kernel.start_ns + kernel.duration_ns, begin, rank.step.length_ns);
    const bool talks = kernel.phase == ImportedPhase::communication;
    spans.push_back({begin * per_ns, end * per_ns, busy_with(talks, kernel.kind.opcode)});
  }
  RankTotals totals = totals_of(spans, std::max(run_ns - rank.late_ns, rank.step.length_ns) * per_ns);
  totals.bubble[static_cast<std::size_t>(BubbleCause::warm_up)] = rank.late_ns * per_ns;
  return totals;
}

}  // namespace simrun
