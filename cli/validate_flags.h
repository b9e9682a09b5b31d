#pragma once

#include <optional>
#include <string>
#include <vector>

namespace simrun {

// The command line of simrun --validate ROWS.csv.
struct ValidateFlags {
  std::optional<std::string> rows;   // path of the measurements
  std::vector<std::string> filters;  // COLUMN=VALUE
  std::optional<std::string> bands;  // path of the error bands to write
};

}  // namespace simrun
