#pragma once

#include <cstdint>
#include <vector>

#include "backend/execute.h"
#include "schedules/plan.h"
#include "schedules/recorded_rows.h"

namespace simrun {

// The plan with its floating-point buffers in the type in which a device stores them: what the simulator's
// memory walk says of it is what the device has to allocate. Null device: the plan's own types.
Plan as_stored(const Plan& plan, ExecutionDevice device);

// Peak bytes by rank that the simulator predicts for so many steps; of a run that has routed tokens with the
// rows that their experts had.
std::vector<std::int64_t> predicted_peaks(const Plan& plan, int steps, const RoutedRows& rows = {});

// Bytes that this machine, or the control group that we are in, lets us have.
std::int64_t memory_of_this_machine();

// Bytes for what a run tells, a double per element, beside the ranks' own memory.
std::int64_t observation_bytes(const Plan& plan, const ExecuteOptions& options);

}  // namespace simrun
