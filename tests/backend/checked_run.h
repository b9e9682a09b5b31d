#pragma once

#include "backend/execute.h"
#include "schedules/plan.h"
#include "tests/backend/tiny_jobs.h"

namespace simrun {

// Runs a plan that must be accepted and end well.
Execution checked_run(const Plan& plan, ExecutionDevice device = ExecutionDevice::cpu_f64, int steps = 2);

// Loss of every step, every gradient and the parameters behind the last step are those of the reference.
void check_equal(const Execution& run, const Execution& reference, double tolerance);

// Every rank's peak is what the simulator says of its GPU: as the plan counts bytes and, where the device
// stores what the plan says, as the device did.
void check_memory(const Plan& plan, const Execution& run, bool by_device);

// The job's model and data on one rank; made once.
const Execution& one_rank(const TinyJob& job);

// Runs the job in f64: everything above.
void check_job(const TinyJob& job);

}  // namespace simrun
