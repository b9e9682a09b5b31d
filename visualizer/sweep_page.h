#pragma once

#include <string>

#include "visualizer/sweep_tables.h"

namespace simrun {

// A sweep as one self-contained HTML file: the plot, and a table with every number of it. No script, fetches
// nothing. Pure: equal inputs give equal bytes.
std::string sweep_page(const Sweep& sweep);

}  // namespace simrun
