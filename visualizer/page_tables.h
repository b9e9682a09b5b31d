#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/summary.h"
#include "schedules/timeline.h"

namespace simrun {

// Text for an HTML element or a quoted attribute.
std::string html_escaped(const std::string& text);

// The page's numbers as HTML: the line of figures under the title, the tables of time and memory per pipeline
// rank, and that of the links. Every column says on hover what it counts.
std::string page_numbers(const Plan& plan, const Summary& summary);

// A second line of figures, for who changes the job: parameters, FLOPs, how the GPUs divide.
std::string page_sizes(const Plan& plan, const Summary& summary);
std::string page_tables(const Plan& plan, const Timeline& timeline, const Summary& summary);

}  // namespace simrun
