#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schedules/plan.h"

namespace simrun {

// Ranks along a dense axis ("tp", "cp", "dp") of a stage's mesh, whole or in pieces ("dp0", "dp1").
std::int64_t ranks_along(const Mesh& mesh, std::string_view axis);
// The same of every pipeline rank of a plan that works on the model: "8", or "1,2(x3),4" where they are
// unlike.
std::string ranks_along_text(const Plan& plan, std::string_view axis);

}  // namespace simrun
