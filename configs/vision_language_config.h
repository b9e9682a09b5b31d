#pragma once

#include <cstdint>

namespace simrun {

// The vision transformer of CLIP (Radford et al. 2021, arXiv 2103.00020, section 2.4): ViT without a bias of
// the patches and with a layer norm in front of its layers. `features` is how many layers run before the one
// whose output is read; what is behind it is run, as Hugging Face's code does, and read by nobody.
struct VisionTowerConfig {
  std::int64_t image_size = 336;  // pixels of each side
  std::int64_t channels = 3;
  std::int64_t patch_size = 14;
  std::int64_t layers = 24;
  std::int64_t features = 23;
  std::int64_t hidden_size = 1024;
  std::int64_t ffn_hidden_size = 4096;
  std::int64_t num_attention_heads = 16;
  bool operator==(const VisionTowerConfig&) const = default;

  std::int64_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
};

// LLaVA 1.5 (Liu et al. 2023, arXiv 2310.03744): a vision tower whose features, through a projector of two
// linear layers, stand in a decoder's sequence as tokens. The ModelConfig is the decoder's, but its
// num_layers counts the tower's layers too, which come first.
struct VisionLanguageConfig {
  VisionTowerConfig tower;
  bool class_token_is_read = false;  // vision_feature_select_strategy: full
  bool projector_bias = true;
  bool operator==(const VisionLanguageConfig&) const = default;

  std::int64_t tokens_of_image() const { return tower.patches() + (class_token_is_read ? 1 : 0); }
};

}  // namespace simrun
