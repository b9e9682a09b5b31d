#pragma once

#include "cli/options.h"
#include "cli/read_input.h"

namespace simrun {

// --export chakra CONFIG -o FOLDER: an execution trace per GPU, NAME.0.et ..., and the file of communicators,
// NAME.communicators (JSON), as ASTRA-sim takes them. The folder must not be there, or be empty; it appears
// whole or not at all. Throws ConfigError for more than fits (4 million nodes) and for what Chakra has no
// nodes for.
int export_chakra(const Options& options, const Input& input);

}  // namespace simrun
