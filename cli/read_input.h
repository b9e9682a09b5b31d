#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "configs/load_job.h"
#include "schedules/plan.h"

namespace simrun {

struct Input {
  std::string path;
  std::optional<LoadedJob> job;  // unset: a Plan file
  Plan plan;
  std::vector<std::string> files() const;  // that were read
};

// The --set overrides and where presets lie.
LoadOptions load_options(const Options& options);

// A job, compiled and linted, or a Plan file. Throws ConfigError.
Input read_input(const std::string& path, const Options& options, const LoadOptions& load);

// Throws ConfigError if the job cannot be planned.
Plan compile_checked(const LoadedJob& job);

}  // namespace simrun
