#pragma once

#include "schedules/timeline.h"
#include "traces/imported_run.h"

namespace simrun {

// Every picosecond of a rank's part in a run that takes so long: compute runs (any kernel that is no
// exchange), or an exchange does and no compute (exposed: sends and receives as p2p, others as dp, since a
// trace does not say which axis it is), or neither: warm-up before the rank's first kernel, drain behind the
// last kernel, else imbalance, which here includes that the host was late.
RankTotals imported_totals(const ImportedRank& rank, std::int64_t run_ns);

}  // namespace simrun
