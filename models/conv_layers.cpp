#include "models/conv_layers.h"

#include <utility>

namespace simrun {
namespace {

constexpr double batch_norm_epsilon = 1e-5;  // PyTorch's

std::vector<DimensionId> dims_of(const FeatureMap& map) {
  return {map.batch, map.height, map.width, map.channels};
}

// Windows reach over the border of a part: nothing is exchanged for them.
std::vector<DimensionId> sides_of(const FeatureMap& x, const FeatureMap& y) {
  return {x.height, x.width, y.height, y.width};
}

}  // namespace

FeatureMap ConvLayers::beside(const std::string& name, FeatureMap x) {
  x.tensor = graph_.activation(name, dims_of(x));
  return x;
}

FeatureMap ConvLayers::strided(const std::string& name, FeatureMap x, DimensionId channels,
                               std::int64_t stride) {
  FeatureMap y = x;
  y.channels = channels;
  if (stride > 1) {
    y.height = graph_.dimension("height", (graph_.size(x.height) + stride - 1) / stride);
    y.width = graph_.dimension("width", (graph_.size(x.width) + stride - 1) / stride);
  }
  return beside(name, y);
}

FeatureMap ConvLayers::convolution(const std::string& name, FeatureMap x, DimensionId channels,
                                   ConvolutionShape shape) {
  const DimensionId rows = graph_.dimension("kernel_height", shape.kernel);
  const DimensionId columns = graph_.dimension("kernel_width", shape.kernel);
  std::vector<TensorId> inputs{x.tensor,
                               graph_.parameter(name + "_weight", {channels, rows, columns, x.channels})};
  if (shape.bias) inputs.push_back(graph_.parameter(name + "_bias", {channels}));
  const FeatureMap y = strided(name, x, channels, shape.stride);
  Operator& op = graph_.add(name, Opcode::conv, Function::none, std::move(inputs), {y.tensor});
  op.constants = {static_cast<double>(shape.stride)};
  if (shape.kernel > 1 || shape.stride > 1) op.whole_dims = sides_of(x, y);
  return y;
}

FeatureMap ConvLayers::batch_norm(const std::string& name, FeatureMap x) {
  const DimensionId two = graph_.dimension("statistics", 2);
  const FeatureMap y = beside(name, x);
  const TensorId statistics =
      graph_.tensor(name + "_statistics", {x.channels, two}, Dtype::fp32, TensorKind::activation);
  Operator& op = graph_.add(name, Opcode::norm, Function::batch_norm,
                            {x.tensor, graph_.parameter(name + "_weight", {x.channels}),
                             graph_.parameter(name + "_bias", {x.channels})},
                            {y.tensor, statistics});
  op.constants = {batch_norm_epsilon};
  op.whole_dims = {x.height, x.width};
  return y;
}

FeatureMap ConvLayers::relu(const std::string& name, FeatureMap x) {
  const FeatureMap y = beside(name, x);
  graph_.add(name, Opcode::map, Function::relu, {x.tensor}, {y.tensor});
  return y;
}

FeatureMap ConvLayers::add(const std::string& name, FeatureMap x, FeatureMap residual) {
  const FeatureMap y = beside(name, x);
  graph_.add(name, Opcode::map, Function::add, {x.tensor, residual.tensor}, {y.tensor});
  return y;
}

FeatureMap ConvLayers::max_pool(const std::string& name, FeatureMap x, ConvolutionShape window) {
  const FeatureMap y = strided(name, x, x.channels, window.stride);
  const TensorId indices = graph_.tensor(name + "_indices", dims_of(y), Dtype::int64, TensorKind::activation);
  Operator& op = graph_.add(name, Opcode::pool, Function::max_pool, {x.tensor}, {y.tensor, indices});
  op.constants = {static_cast<double>(window.kernel), static_cast<double>(window.stride)};
  op.whole_dims = sides_of(x, y);
  return y;
}

TensorId ConvLayers::global_average(const std::string& name, FeatureMap x) {
  const TensorId features = graph_.activation(name, {x.batch, x.channels});
  graph_.add(name, Opcode::pool, Function::average_pool, {x.tensor}, {features}).whole_dims = {x.height,
                                                                                               x.width};
  return features;
}

}  // namespace simrun
