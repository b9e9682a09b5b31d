#pragma once

#include <string>

#include "schedules/plan.h"

namespace simrun {

// Why the CPU device cannot run an instruction yet, with the config key that asks for it; empty if it can.
std::string cpu_refusal(const Plan& plan, const Instruction& what);

}  // namespace simrun
