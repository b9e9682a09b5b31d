#pragma once

#include <string>

#include "schedules/summary.h"

namespace simrun {

// The step of every pipeline rank as one bar, HTML: compute, then each cause of idle time and each kind of
// exposed communication, as the table of times counts them. With a legend of what occurs.
std::string idle_bars(const Summary& summary);

}  // namespace simrun
