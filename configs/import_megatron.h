#pragma once

#include <string>

#include "configs/load_job.h"

namespace simrun {

struct ImportedJob {
  Job job;
  std::string yaml;  // a job file that loads to it, with what is not modelled as comments
};

// The job that Megatron-LM's arguments (configs/megatron_words.h says in which files) describe, with its own
// defaults where a flag is not given. The cluster's hardware, which no argument says, is `dgx_h100` unless
// options.overrides say another. Throws ConfigError with every problem, at its flag in the file: flags that
// are unknown or not supported, and what the job's own rules refuse.
ImportedJob import_megatron(const std::string& text, const std::string& file, const LoadOptions& options);

}  // namespace simrun
