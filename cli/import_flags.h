#pragma once

#include <optional>
#include <string>
#include <vector>

namespace simrun {

// What --import-trace and the flags that go with it say. Unset: not given.
struct ImportFlags {
  std::vector<std::string> traces;     // files or folders; empty: no import
  std::optional<std::string> against;  // the job that was profiled: YAML or a Plan file
  std::optional<std::string> profile;  // path of the device profile to write
};

}  // namespace simrun
