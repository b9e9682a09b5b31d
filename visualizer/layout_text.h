#pragma once

#include <string>

#include "schedules/layout_report.h"

namespace simrun {

// What --print-layout prints: a line for each operator, layers that are alike once, and below it a line for
// each of its transfers: pass, operation, axes (ranks), bytes per rank and what changes. At most 100
// characters wide.
std::string layout_text(const LayoutReport& report);

// {mesh: [{name, size}], pipeline_stages, parts: [{name, layers: [], operators: [{name, module, layout,
// partial, transfers: [{when, operation, axes, ranks, bytes, change, cause}]}]}]}. Ends in a newline.
std::string layout_json(const LayoutReport& report);

}  // namespace simrun
