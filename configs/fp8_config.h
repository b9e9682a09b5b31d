#pragma once

#include <cstdint>

// Training in fp8: which of Transformer Engine's recipes scales the operands of linear layers.
namespace simrun {

// Megatron-LM's --fp8-recipe.
//   delayed     one scale per tensor, from the largest values of earlier passes (amax history)
//   tensorwise  one scale per tensor, from the tensor itself (current scaling)
//   blockwise   one fp32 scale per 1x128 of activations and gradients and per 128x128 of weights
//               (DeepSeek-AI 2024, arXiv 2412.19437, section 3.3.2)
//   mxfp8       one scale of one byte per 32 elements (OCP Microscaling Formats 1.0)
enum class Fp8Recipe : std::uint8_t { delayed, tensorwise, blockwise, mxfp8 };

struct Fp8Config {
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool param_gather = false;  // parameters of linear layers are held, and gathered under ZeRO, in fp8
  bool operator==(const Fp8Config&) const = default;
};

// One scale per tensor, which is not counted in memory.
constexpr bool scales_whole_tensors(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::delayed || recipe == Fp8Recipe::tensorwise;
}

}  // namespace simrun
