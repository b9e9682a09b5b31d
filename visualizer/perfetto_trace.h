#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// The same as chrome_trace in Perfetto's protobuf (perfetto.protos.Trace; field numbers in
// perfetto_trace.proto). Times are whole nanoseconds, rounded as in trace_events.h, so slices of a track
// still do not overlap; a slice of no length begins and ends at one time. Pure.
//
// Tracks: the job (one slice, the step, with the facts of the run), below it the recorded GPUs, below these
// their streams and counters, in that order. They are plain tracks, not processes and threads: Perfetto
// orders those by rules of its own and ignores what the trace says. A counter's value is written where it
// changes.
std::string perfetto_trace(const Plan& plan, const Timeline& timeline);

}  // namespace simrun
