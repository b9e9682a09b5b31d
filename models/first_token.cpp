#include "models/first_token.h"

namespace simrun {

TensorId add_first_token(GraphBuilder& graph, TensorId x, SequenceDims dims) {
  const TensorId first = graph.activation("first_token", {dims.batch, dims.hidden});
  graph.add("first_token", Opcode::map, Function::select, {x}, {first}).whole_dims = {dims.sequence};
  return first;
}

}  // namespace simrun
