#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backend/execute.h"
#include "backend/observations.h"
#include "backend/run_failure.h"
#include "backend/transport.h"

namespace simrun {

// Runs `body` for every rank of a plan as a thread, in this process or in several
// (ExecuteOptions::processes). In the latter case process 0 gets what the others' ranks have told and
// reported.
RunFailure run_ranks(const Plan& plan, const ExecuteOptions& options,
                     const std::function<void(std::int64_t rank, Transport&)>& body, Observations& observed,
                     Execution& execution);

// What processes must have alike to run together: "plan 41c0b7ff, 2 steps of device 1, seed 0, options
// 8ab0..".
std::string agreement_of(const Plan& plan, const ExecuteOptions& options);

}  // namespace simrun
