#pragma once

#include <optional>
#include <vector>

#include "schedules/timeline.h"
#include "traces/imported_run.h"

namespace simrun {

enum class BusyWith : std::uint8_t { compute, collective, pipeline };
BusyWith busy_with(bool communicates, std::optional<Opcode> opcode);

// What a rank does from one moment of its step to another.
struct BusySpan {
  Picoseconds begin = 0, end = 0;
  BusyWith what = BusyWith::compute;
};

// Every picosecond of a step that takes so long: compute runs (any kernel that is no exchange), or an
// exchange does and no compute (exposed: sends and receives as p2p, others as dp, since a trace does not say
// which axis it is), or neither: drain behind the last of them, else imbalance, which here includes that the
// host was late.
RankTotals totals_of(const std::vector<BusySpan>& spans, Picoseconds length);

// Of a rank's part in a run that takes so long, with warm-up before it.
RankTotals imported_totals(const ImportedRank& rank, std::int64_t run_ns);

}  // namespace simrun
