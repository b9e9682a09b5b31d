#pragma once

#include <string>
#include <utility>
#include <vector>

#include "configs/load_job.h"
#include "validation/measured_row.h"

namespace simrun {

// The published measurements of a file, those that every --filter COLUMN=VALUE lets through. Throws
// ConfigError for a file that cannot be read, its header, or a filter that is wrong or lets none through.
MeasuredFile read_measured_file(const std::string& path, const std::vector<std::string>& filters,
                                const LoadOptions& load);

}  // namespace simrun
