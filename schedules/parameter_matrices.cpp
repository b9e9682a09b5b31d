#include "schedules/parameter_matrices.h"

#include <map>
#include <utility>

namespace simrun {
namespace {

void append(std::vector<AxisId>& axes, const DimensionSplit* split) {
  if (split != nullptr) axes.insert(axes.end(), split->axes.begin(), split->axes.end());
}

// `in`, `out`: dimensions of what the parameter is multiplied with and of the product.
ParameterMatrix matrix_of(const Graph& graph, const Value& value, const Mesh& mesh,
                          const std::vector<DimensionId>& in, const std::vector<DimensionId>& out) {
  ParameterMatrix matrix;
  matrix.count = 1;
  bool is_first = true;
  for (const DimensionId dim : graph.tensors[value.tensor].dims) {
    const std::int64_t extent = local_extent(graph, value.layout, dim, mesh);
    const bool column = has(in, dim) && !has(out, dim);
    if (has(in, dim) && has(out, dim)) {
      matrix.count *= extent;
      continue;
    }
    (column ? matrix.columns : matrix.rows) *= extent;
    (column ? matrix.whole_columns : matrix.whole_rows) *= graph.dimensions[dim].size;
    if (std::exchange(is_first, false)) matrix.columns_first = column;
    append(column ? matrix.column_axes : matrix.row_axes, value.layout.split_of(dim));
  }
  return matrix;
}

ParameterMatrix vector_of(const Graph& graph, const Value& value, const Mesh& mesh) {
  ParameterMatrix vector;
  for (const DimensionId dim : graph.tensors[value.tensor].dims) {
    if (graph.dimensions[dim].name == "experts") {
      vector.vectors = local_extent(graph, value.layout, dim, mesh);
      continue;
    }
    vector.whole_rows *= graph.dimensions[dim].size;
    append(vector.row_axes, value.layout.split_of(dim));
  }
  return vector;
}

// Of a weight that products read as copies in fp8 or fp4, the weight.
ValueId weight_of(const ChunkCode& code, ValueId value) {
  for (const QuantisedParameter& of : code.quantised)
    if (of.is_copy(value)) return of.weight;
  return value;
}

}  // namespace

std::vector<AxisId> ParameterMatrix::axes() const {
  std::vector<AxisId> all = row_axes;
  all.insert(all.end(), column_axes.begin(), column_axes.end());
  return all;
}

std::vector<ParameterMatrix> parameter_matrices(const Graph& graph, const ChunkCode& code, const Mesh& mesh) {
  std::map<ValueId, ParameterMatrix> known;
  for (const CodeStep& step : code.forward) {
    const auto dims = [&](ValueId value) { return graph.tensors[code.values[value].tensor].dims; };
    const bool gathers = step.opcode == Opcode::gather;
    if ((step.opcode != Opcode::gemm && !gathers) || step.inputs.size() < 2) continue;
    const ValueId parameter = weight_of(code, step.inputs[gathers ? 0 : 1]);
    if (code.values[parameter].kind != ValueKind::parameter || known.count(parameter) > 0) continue;
    // Rows of a table are its entries; its columns are what is copied out.
    const std::vector<DimensionId> out = dims(step.outputs[0]);
    ParameterMatrix matrix = gathers
                                 ? matrix_of(graph, code.values[parameter], mesh, out, {})
                                 : matrix_of(graph, code.values[parameter], mesh, dims(step.inputs[0]), out);
    matrix.hidden = step.layer >= 0 && !gathers;
    known[parameter] = matrix;
  }
  std::vector<ParameterMatrix> matrices;
  for (const ValueId parameter : code.parameters) {
    const auto matrix = known.find(parameter);
    matrices.push_back(matrix != known.end() ? matrix->second
                                             : vector_of(graph, code.values[parameter], mesh));
  }
  return matrices;
}

}  // namespace simrun
