#include "cli/version.h"

namespace simrun {

std::string version() { return SIMRUN_VERSION; }

}  // namespace simrun
