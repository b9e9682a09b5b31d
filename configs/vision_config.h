#pragma once

#include <cstdint>
#include <vector>

// Models that read images and name one of `classes`.
namespace simrun {

struct ImageConfig {
  std::int64_t size = 224;  // pixels of each side
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  bool operator==(const ImageConfig&) const = default;
};

// Vision transformer (Dosovitskiy et al. 2021, arXiv 2010.11929): square patches as tokens behind a class
// token, in a ModelConfig's pre-norm layers that attend to both sides.
struct VisionTransformerConfig {
  ImageConfig image;
  std::int64_t patch_size = 16;
  std::int64_t tokens() const { return (image.size / patch_size) * (image.size / patch_size) + 1; }
  bool operator==(const VisionTransformerConfig&) const = default;
};

// The blocks of one resolution of a residual net: channels behind each convolution of a block.
//   bottleneck  1x1 -> reduced, 3x3 -> inner, 1x1 -> output
//   basic       3x3 -> inner, 3x3 -> output (`reduced` is 0)
struct ResidualStage {
  std::int64_t blocks = 0;
  std::int64_t reduced = 0;
  std::int64_t inner = 0;
  std::int64_t output = 0;
  bool operator==(const ResidualStage&) const = default;
};

// ResNet (He et al. 2016, arXiv 1512.03385) and Wide-ResNet (Zagoruyko and Komodakis 2016, arXiv 1605.07146).
// ModelConfig::num_layers counts blocks: what a pipeline may be cut between.
struct ResNetConfig {
  ImageConfig image;
  std::int64_t stem_channels = 64;
  std::vector<ResidualStage> stages;
  // The stride of a stage's first bottleneck is in its 1x1 convolution (the paper), not its 3x3
  // (torchvision).
  bool stride_in_reduction = false;
  bool operator==(const ResNetConfig&) const = default;
};

// VGG (Simonyan and Zisserman 2015, arXiv 1409.1556): 3x3 convolutions with biases and ReLU, a max pooling
// behind the last of each resolution, two wide layers and the classifier. ModelConfig::num_layers counts
// convolutions.
struct VggConfig {
  ImageConfig image;
  std::vector<std::int64_t> convolutions;  // by resolution
  std::int64_t wide_features = 4096;
  bool operator==(const VggConfig&) const = default;
};

}  // namespace simrun
