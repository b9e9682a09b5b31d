#include "models/conv_layers.h"

#include <utility>

namespace simrun {
namespace {

std::vector<DimensionId> dims_of(const FeatureMap& map) {
  return {map.batch, map.height, map.width, map.channels};
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
  graph_.add(name, Opcode::conv, Function::none, std::move(inputs), {y.tensor});
  return y;
}

FeatureMap ConvLayers::batch_norm(const std::string& name, FeatureMap x) {
  const DimensionId two = graph_.dimension("statistics", 2);
  const FeatureMap y = beside(name, x);
  const TensorId statistics =
      graph_.tensor(name + "_statistics", {x.channels, two}, Dtype::fp32, TensorKind::activation);
  graph_.add(name, Opcode::norm, Function::batch_norm,
             {x.tensor, graph_.parameter(name + "_weight", {x.channels}),
              graph_.parameter(name + "_bias", {x.channels})},
             {y.tensor, statistics});
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
  graph_.add(name, Opcode::pool, Function::max_pool, {x.tensor}, {y.tensor, indices});
  return y;
}

TensorId ConvLayers::global_average(const std::string& name, FeatureMap x) {
  const TensorId features = graph_.activation(name, {x.batch, x.channels});
  graph_.add(name, Opcode::pool, Function::average_pool, {x.tensor}, {features});
  return features;
}

}  // namespace simrun
