#pragma once

#include <cstdint>

#include "configs/dtype.h"

// Training in fp8 or fp4: which of Transformer Engine's recipes scales the operands of linear layers.
namespace simrun {

// Megatron-LM's --fp8-recipe, and its --fp4-recipe.
//   delayed     one scale per tensor, from the largest values of earlier passes (amax history)
//   tensorwise  one scale per tensor, from the tensor itself (current scaling)
//   blockwise   one fp32 scale per 1x128 of activations and gradients and per 128x128 of weights
//               (DeepSeek-AI 2024, arXiv 2412.19437, section 3.3.2)
//   mxfp8       one scale of one byte per 32 elements (OCP Microscaling Formats 1.0)
//   nvfp4       fp4 (E2M1): one scale of one byte (E4M3) per 16 elements and one in fp32 per tensor, from the
//               tensor itself; weights share scales in squares of 16 x 16, gradients are rounded at random,
//               operands of weight gradients are rotated by 16 x 16 Hadamard matrices (NVIDIA, "Pretraining
//               Large Language Models with NVFP4", arXiv 2509.25149). training.precision: nvfp4.
enum class Fp8Recipe : std::uint8_t { delayed, tensorwise, blockwise, mxfp8, nvfp4 };

struct Fp8Config {
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool param_gather = false;  // parameters of linear layers are held, and gathered under ZeRO, in fp8
  bool operator==(const Fp8Config&) const = default;
};

// One scale per tensor and no others. It is not counted in memory.
constexpr bool scales_whole_tensors(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::delayed || recipe == Fp8Recipe::tensorwise;
}

// A kernel of its own looks for a tensor's largest value before the tensor is cast.
constexpr bool looks_before_cast(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::tensorwise || recipe == Fp8Recipe::nvfp4;
}

// What products of linear layers read.
constexpr Dtype operand_dtype(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::nvfp4 ? Dtype::fp4 : Dtype::fp8;
}

}  // namespace simrun
