#pragma once

#include <vector>

#include "sim/compiled_program.h"
#include "sim/device_state.h"
#include "sim/meetings.h"
#include "sim/rendezvous.h"

namespace simrun {

// Where the engine stood when nothing could go on.
struct Standstill {
  const Plan& plan;
  const CompiledPlan& compiled;
  const Meetings& meetings;
  const std::vector<DeviceState>& devices;
  const std::vector<Rendezvous>& rendezvous;
};

// Throws std::runtime_error that says, for the first stuck GPU of every pipeline rank, what it waits for
// and who has not posted it.
[[noreturn]] void throw_deadlock(const Standstill& at);

// Throws std::runtime_error: an exchange got more ends than it has.
[[noreturn]] void throw_posted_twice(const Plan& plan, const Channel& channel);

}  // namespace simrun
