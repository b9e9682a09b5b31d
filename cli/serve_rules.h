#pragma once

#include "cli/option_rules.h"
#include "cli/options.h"

namespace simrun {

// What does not go with --serve, and --port without it.
OptionFault serve_fault(const Options& options);

}  // namespace simrun
