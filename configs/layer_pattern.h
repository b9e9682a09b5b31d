#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simrun {

// Zeros and ones by layer, or what is wrong with the text, from its first character on.
struct LayerPattern {
  std::vector<bool> layers;
  std::string problem;  // "": none
  std::size_t at = 0;   // of the problem: characters from the beginning
};

// Reads Megatron-LM's --moe-layer-freq where it is an expression: lists of 0 and 1, added and multiplied by
// numbers as Python does, with parentheses. "([0]*3+[1]*58)*1" is three 0 and 58 times 1. Nothing else of
// Python, and no more than `most` layers.
LayerPattern parse_layer_pattern(std::string_view text, std::size_t most);

}  // namespace simrun
