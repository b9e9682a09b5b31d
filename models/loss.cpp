#include "models/loss.h"

#include <utility>

namespace simrun {

TensorId add_indices(GraphBuilder& graph, const std::string& name, std::vector<DimensionId> dims,
                     std::optional<DimensionId> whole, std::vector<double> constants) {
  const TensorId indices = graph.tensor(name, std::move(dims), Dtype::int64, TensorKind::index);
  Operator& op = graph.add(name, Opcode::input, Function::none, {}, {indices});
  if (whole) op.whole_dims = {*whole};
  op.constants = std::move(constants);
  return indices;
}

void add_cross_entropy(GraphBuilder& graph, const std::string& prefix, Scored scored,
                       const std::vector<DimensionId>& rows) {
  const auto wide = [&](const std::string& name, std::vector<DimensionId> dims) {
    return graph.tensor(prefix + name, std::move(dims), Dtype::fp32, TensorKind::activation);
  };
  const TensorId maximum = wide("logits_max", rows);
  graph.add(prefix + "logits_max", Opcode::reduce, Function::max, {scored.logits}, {maximum});
  std::vector<DimensionId> two_sums = rows;
  two_sums.push_back(graph.dimension(prefix + "sums", 2));
  const TensorId sums = wide("cross_entropy_sums", std::move(two_sums));
  graph.add(prefix + "cross_entropy", Opcode::cross_entropy, Function::none,
            {scored.logits, maximum, scored.labels}, {sums});
  const TensorId loss = wide("loss", rows);
  Operator& op = graph.add(prefix + "loss", Opcode::map, Function::log_loss,
                           {sums, maximum, scored.logits, scored.labels}, {loss});
  op.forward_inputs = 2;
  op.constants = {scored.weight};
}

TensorId add_fp32(GraphBuilder& graph, const std::string& name, TensorId logits,
                  const std::vector<DimensionId>& dims, Dtype precision) {
  if (precision == Dtype::fp32 || precision == Dtype::tf32) return logits;
  const TensorId cast = graph.tensor(name + "_fp32", dims, Dtype::fp32, TensorKind::activation);
  graph.add(name + "_fp32", Opcode::map, Function::cast, {logits}, {cast});
  return cast;
}

void add_token_loss(GraphBuilder& graph, TensorId y, TensorId table, TokenDims dims) {
  const std::vector<DimensionId> scores{dims.batch, dims.sequence, dims.vocab};
  const TensorId logits = graph.activation("logits", scores);
  graph.add("logits", Opcode::gemm, Function::none, {y, table}, {logits});
  const TensorId wide = add_fp32(graph, "logits", logits, scores, graph.precision());
  const std::vector<DimensionId> labelled{dims.batch, dims.sequence};
  add_cross_entropy(graph, "", {wide, add_indices(graph, "labels", labelled, dims.sequence)}, labelled);
}

}  // namespace simrun
