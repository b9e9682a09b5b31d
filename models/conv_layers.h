#pragma once

#include <cstdint>
#include <string>

#include "models/graph_builder.h"

namespace simrun {

// An activation [batch, height, width, channels] (channels last, as cuDNN's tensor-core kernels read it).
struct FeatureMap {
  TensorId tensor = 0;
  DimensionId batch = 0, height = 0, width = 0, channels = 0;
};

struct ConvolutionShape {
  std::int64_t kernel = 3;  // of both sides
  std::int64_t stride = 1;
  bool bias = false;
};

// The operators of convolutional nets. Convolutions and poolings are padded so that a side of n becomes
// ceil(n / stride), as the kernels here all are (7x7 by 3, 3x3 by 1, 1x1 and 2x2 not at all).
class ConvLayers {
 public:
  explicit ConvLayers(GraphBuilder& graph) : graph_(graph) {}

  DimensionId channels(std::int64_t count) { return graph_.dimension("channels", count); }

  FeatureMap convolution(const std::string& name, FeatureMap x, DimensionId channels, ConvolutionShape shape);
  // Statistics are those of the samples that a rank has, as in PyTorch's BatchNorm2d under
  // DistributedDataParallel (not SyncBatchNorm): nothing is exchanged forward.
  FeatureMap batch_norm(const std::string& name, FeatureMap x);
  FeatureMap relu(const std::string& name, FeatureMap x);
  FeatureMap add(const std::string& name, FeatureMap x, FeatureMap residual);
  // Keeps the index of each maximum for its backward pass, in 8 bytes, as PyTorch's max_pool2d does.
  FeatureMap max_pool(const std::string& name, FeatureMap x, ConvolutionShape window);
  // The mean over both sides: [batch, channels].
  TensorId global_average(const std::string& name, FeatureMap x);

 private:
  FeatureMap beside(const std::string& name, FeatureMap x);
  FeatureMap strided(const std::string& name, FeatureMap x, DimensionId channels, std::int64_t stride);

  GraphBuilder& graph_;
};

}  // namespace simrun
