#pragma once

#include <string>
#include <vector>

#include "configs/load_job.h"
#include "sim/simulate.h"
#include "validation/error_bands.h"
#include "visualizer/sweep_tables.h"

namespace simrun {

// One point of a sweep, from the job's file to its numbers. Where the loader, the compiler or the simulator
// refuses it, or it does not fit, the row's `error` is the first message. `values` are left to the caller.
SweepRow simulate_point(const std::string& input, const LoadOptions& load, EngineChoice engine,
                        const std::vector<ErrorBand>& bands);

// A row without its values, for another process of the same program; not a file format.
std::string to_bytes(const SweepRow& row);
SweepRow row_from_bytes(const std::string& bytes);

}  // namespace simrun
