#pragma once

#include <string>

#include "cli/options.h"
#include "configs/load_job.h"

namespace simrun {

// --print-topology: writes the page of --html and returns the text, or JSON, of the links of a job's or a
// plan's cluster, or of a preset of that name with 64 nodes (or
// --set cluster.nodes). Throws ConfigError and OutputError.
std::string topology_report_text(const Options& options, const LoadOptions& load);

}  // namespace simrun
