#pragma once

#include <cstdint>
#include <string>

#include "schedules/plan.h"

namespace simrun {

// A buffer of `elements` without further shape that lives for the whole run. REQUIRES: the plan names a
// dimension "elements".
Index add_flat_buffer(Plan& plan, const std::string& name, Category category, Dtype dtype,
                      std::int64_t elements);

}  // namespace simrun
