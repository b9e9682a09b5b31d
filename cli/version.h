#pragma once

#include <string>

namespace simrun {

std::string version();  // "0.1.0", from CMake's project()

}  // namespace simrun
