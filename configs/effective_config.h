#pragma once

#include <string>
#include <vector>

#include "configs/section_reader.h"

namespace simrun {

// The values as YAML, grouped by their dotted paths; with a comment on each line about where it came from.
std::string effective_yaml(const std::vector<EffectiveValue>& values);

// SHA-256 of the paths and values without their origins, in the order of the paths: equal configs have equal
// hashes on every machine.
std::string effective_sha256(const std::vector<EffectiveValue>& values);

}  // namespace simrun
