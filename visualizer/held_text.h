#pragma once

#include <string>

#include "schedules/summary.h"

namespace simrun {

// What the fullest GPU holds besides the plan's tensors, as lines of text: from live to allocated, reserved
// and device bytes, each with the parts that it adds. "" where the framework's allocator is not known.
std::string held_text(const Summary& summary);

}  // namespace simrun
