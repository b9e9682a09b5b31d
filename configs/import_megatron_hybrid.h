#pragma once

#include <cstdint>
#include <optional>

#include "configs/hybrid_layer_pattern.h"
#include "configs/megatron_reader.h"

namespace simrun {

// Puts what the pattern of a hybrid says of its layers, and of those that predict further tokens.
void import_hybrid_layers(MegatronReader& flags);

// Puts the stages that the pattern says on so many pipeline ranks, and returns how many a rank has; nothing
// where it says none.
std::optional<std::int64_t> import_hybrid_stages(MegatronReader& flags, std::int64_t ranks);

}  // namespace simrun
