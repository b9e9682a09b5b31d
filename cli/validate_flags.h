#pragma once

#include <optional>
#include <string>
#include <vector>

namespace simrun {

// The command line of simrun --validate ROWS.csv and --fit ROWS.csv --device NAME.
struct ValidateFlags {
  std::optional<std::string> rows;   // path of the measurements
  std::vector<std::string> filters;  // COLUMN=VALUE
  std::optional<std::string> bands;  // path of the error bands to write
  std::optional<std::string> fit;    // path of the measurements that a device's coefficients are fitted to
  std::optional<std::string> coefficients;  // path of the fitted part of the device's file
};

}  // namespace simrun
