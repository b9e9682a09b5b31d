#pragma once

#include <variant>

#include "configs/encoder_config.h"
#include "configs/recurrent_config.h"
#include "configs/vision_config.h"
#include "configs/vision_language_config.h"

namespace simrun {

// What a family has besides ModelConfig's values; nothing: a decoder-only transformer.
using ModelFamily = std::variant<std::monostate, BertConfig, VisionTransformerConfig, ResNetConfig, VggConfig,
                                 EncoderDecoderConfig, GnmtConfig, VisionLanguageConfig>;

template <typename Family>
const Family* family_as(const ModelFamily& family) {
  return std::get_if<Family>(&family);
}

// The images that the family reads; null where it reads tokens.
const ImageConfig* image_of(const ModelFamily& family);
// It reads one sequence and writes another.
inline bool has_decoder_sequence(const ModelFamily& family) {
  return family_as<EncoderDecoderConfig>(family) != nullptr || family_as<GnmtConfig>(family) != nullptr;
}

}  // namespace simrun
