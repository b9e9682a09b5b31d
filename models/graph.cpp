#include "models/graph.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace simrun {

DimensionId Graph::dimension(const std::string& name) const {
  const auto found =
      std::find_if(dimensions.begin(), dimensions.end(), [&](const Dimension& d) { return d.name == name; });
  assert(found != dimensions.end() && "the graph has no dimension of that name");
  return static_cast<DimensionId>(found - dimensions.begin());
}

std::int64_t elements(const Graph& graph, const Tensor& tensor) {
  std::int64_t product = 1;
  for (const DimensionId dim : tensor.dims) product *= graph.dimensions[dim].size;
  return product;
}

std::int64_t padded_elements(const Graph& graph, const Tensor& tensor) {
  std::int64_t product = 1;
  for (const DimensionId dim : tensor.dims) product *= graph.dimensions[dim].padded_size;
  return product;
}

std::vector<DimensionId> iteration_space(const Graph& graph, const Operator& op) {
  std::vector<DimensionId> space;
  const auto visit = [&](const std::vector<TensorId>& tensors) {
    for (const TensorId tensor : tensors)
      for (const DimensionId dim : graph.tensors[tensor].dims)
        if (std::find(space.begin(), space.end(), dim) == space.end()) space.push_back(dim);
  };
  visit(op.inputs);
  visit(op.outputs);
  return space;
}

std::int64_t count_parameters(const Graph& graph, std::size_t first, std::size_t last) {
  std::set<TensorId> counted;
  std::int64_t total = 0;
  for (std::size_t o = first; o < last; ++o)
    for (const TensorId tensor : graph.operators[o].inputs)
      if (graph.tensors[tensor].kind == TensorKind::parameter && counted.insert(tensor).second)
        total += elements(graph, graph.tensors[tensor]);
  return total;
}

std::int64_t count_trained_parameters(const Graph& graph) {
  std::set<TensorId> counted;
  std::int64_t total = 0;
  for (const Operator& op : graph.operators)
    for (const TensorId tensor : op.inputs) {
      const Tensor& t = graph.tensors[tensor];
      if (t.kind == TensorKind::parameter && !t.frozen && counted.insert(tensor).second)
        total += elements(graph, t);
    }
  return total;
}

std::int64_t count_parameters(const Graph& graph) {
  return count_parameters(graph, 0, graph.operators.size());
}

}  // namespace simrun
