#pragma once

#include "traces/byte_source.h"
#include "traces/recorded_trace.h"

namespace simrun {

// A trace in Chrome's JSON (Google, "Trace Event Format"): an array of events, or an object with them as
// traceEvents; X events, and B with E. Of a PyTorch profile (Kineto: events of category kernel, gpu_memcpy or
// gpu_memset) what the devices did, with the host's launches, steps and backward passes; of any other trace
// all slices. A file that was cut off gives what it has, and a note. Throws ConfigError if it is no such
// trace or has no event with a duration.
RecordedTrace read_chrome_trace(ByteSource& bytes);

}  // namespace simrun
