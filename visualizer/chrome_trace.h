#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// The recorded lanes in Chrome's trace event format (JSON object with `traceEvents`), for chrome://tracing
// and ui.perfetto.dev: one process per recorded GPU (with names and process_sort_index in pipeline order),
// one thread per stream in use (thread_sort_index), complete slices that never overlap on a thread, memory
// counters, flow arrows from every send to its receive, link utilisation counters (trace_events.h). Ends in a
// newline. Pure: equal inputs give equal bytes.
//
// `ts` and `dur` are microseconds in whole nanoseconds, rounded as in trace_events.h; args.start_ps and
// args.duration_ps are exact. Digits below 1 ns would lose slices: Perfetto rounds ts and dur each to the
// nearest nanosecond and then drops a slice that begins before the one before has ended (google/perfetto,
// src/trace_processor/importers/json/json_trace_tokenizer.cc CoerceToTs, common/slice_tracker.cc
// slice_drop_overlapping_complete_event, commit 0a92ff06). Slices of no length have dur 0.
std::string chrome_trace(const Plan& plan, const Timeline& timeline);

}  // namespace simrun
