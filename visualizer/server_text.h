#pragma once

#include <string>

#include "schedules/plan.h"

namespace simrun {

// "2 dedicated, bounded_staleness 3 (weights lack 2 steps' updates), 48.8 MiB of weights each".
std::string servers_text(const ParameterServers& servers);
const char* to_string(ServerMode mode);

// The same as a JSON object.
std::string servers_json(const ParameterServers& servers);

}  // namespace simrun
