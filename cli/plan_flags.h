#pragma once

#include <optional>
#include <string>

namespace simrun {

// What --plan and --resume say. `--plan` alone, with a planner's name, or with a job and nothing else is a
// search; `--plan FILE` beside a job writes its Plan, as it always did (Options::plan).
struct PlanFlags {
  std::optional<std::string> search;  // jobs, alpa, galvatron, whale; unset: no search
  bool resume = false;                // go on from what an earlier search of the same job has simulated
};

}  // namespace simrun
