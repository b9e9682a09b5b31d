#include "models/patch_embedding.h"

#include <utility>
#include <vector>

namespace simrun {

TensorId add_patch_embedding(GraphBuilder& graph, const Patches& patches, const DecoderDimensions& dims) {
  const DimensionId count = graph.dimension("patches", patches.count);
  const DimensionId pixels = graph.dimension("pixels", patches.pixels);
  const TensorId images =
      graph.tensor("images", {dims.batch, count, pixels}, graph.precision(), TensorKind::index);
  graph.add("images", Opcode::input, Function::none, {}, {images});
  std::vector<TensorId> operands{images, graph.parameter("patch_weight", {pixels, dims.hidden})};
  if (patches.bias) operands.push_back(graph.parameter("patch_bias", {dims.hidden}));
  const TensorId embedded = graph.activation("patch_embedding", {dims.batch, count, dims.hidden});
  graph.add("patch_embedding", Opcode::gemm, Function::none, std::move(operands), {embedded});

  const std::vector<DimensionId> rows{dims.batch, dims.sequence, dims.hidden};
  const TensorId token = graph.parameter("class_token", {dims.hidden});
  const TensorId tokens = graph.activation("class_token", rows);
  graph.add("class_token", Opcode::map, Function::concatenate, {embedded, token}, {tokens}).whole_dims = {
      dims.sequence};
  const DimensionId positions = graph.dimension("positions", patches.count + 1);
  const TensorId table = graph.parameter("position_embeddings", {positions, dims.hidden});
  const TensorId x = graph.activation("position_embedding", rows);
  graph.add("position_embedding", Opcode::gather, Function::none, {table, tokens}, {x}).constants = {
      0};  // the class token's row is the first
  return x;
}

}  // namespace simrun
