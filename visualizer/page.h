#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/summary.h"
#include "schedules/timeline.h"

namespace simrun {

// One self-contained HTML file: header numbers, idle and memory tables, and the pipeline drawn from what the
// Timeline recorded (Detail::passes gives pass boxes and memory, Detail::instructions the kernels in them as
// well). Fetches nothing, opens from disk. Text that users wrote is escaped. Pure: equal inputs give equal
// bytes.
std::string html_page(const Plan& plan, const Timeline& timeline, const Summary& summary);

}  // namespace simrun
