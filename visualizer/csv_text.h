#pragma once

#include "visualizer/text_table.h"

namespace simrun {

// A line of RFC 4180, ended by "\n": a field with a comma, a quote or a line end stands in quotes, quotes in
// it are doubled.
std::string csv_line(const TextRow& fields);

}  // namespace simrun
