#pragma once

#include <optional>
#include <string>

namespace simrun {

// What --export and --import say. Unset: not given.
struct ConvertFlags {
  std::optional<std::string> to;    // megatron, torchtitan, chakra
  std::optional<std::string> from;  // megatron, deepspeed
};

}  // namespace simrun
