#pragma once

#include <string>

#include "visualizer/collective_text.h"

namespace simrun {

// A page with bus bandwidth over sizes, both logarithmic, a curve for each number of nodes, and the table.
std::string collective_page(const CollectiveCurves& curves);

}  // namespace simrun
