#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// The trace that --trace writes at this path. REQUIRES: trace_format(path).
std::string trace_bytes(const std::string& path, const Plan& plan, const Timeline& timeline);

}  // namespace simrun
