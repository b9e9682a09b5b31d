#pragma once

#include <string>

namespace simrun {

// What is wrong with a command line, and what to do instead (or ""). No message: nothing.
struct OptionFault {
  std::string message;
  std::string hint;
};

}  // namespace simrun
