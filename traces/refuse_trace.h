#pragma once

#include <string>

#include "configs/diagnostics.h"

namespace simrun {

// What is wrong with a whole trace, or with what was asked of it.
[[noreturn]] inline void refuse_trace(const std::string& path, const std::string& message,
                                      const std::string& hint) {
  throw ConfigError({{{path, 0, 0}, message, hint}});
}

}  // namespace simrun
