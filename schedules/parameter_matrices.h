#pragma once

#include <cstdint>
#include <vector>

#include "schedules/chunk_code.h"

namespace simrun {

// A parameter as optimizers of matrices see it: `count` of them (one per expert of a rank), each of
// rows x columns = output x input features on one rank. Packed parameters (q, k, v; gate and up) are one
// matrix, as they are stored.
struct ParameterMatrix {
  std::int64_t count = 0;    // 0: a vector (norm, bias)
  std::int64_t vectors = 1;  // of count 0: one per expert of a rank
  std::int64_t rows = 1, columns = 1;
  // Of all ranks together, without padding: of a matrix, or of a vector its elements (and 1).
  std::int64_t whole_rows = 1, whole_columns = 1;
  std::vector<AxisId> row_axes, column_axes;  // over which its rows (or a vector) and its columns are split
  bool hidden = false;         // in a layer: neither an embedding, positions included, nor the head
  bool columns_first = false;  // in memory: [columns, rows]
  std::int64_t elements = 1;   // of all of them, on one rank

  std::vector<AxisId> axes() const;  // rows', then columns'
};

// By ChunkCode::parameters: matrices are the second operands of products and the tables of gathers.
std::vector<ParameterMatrix> parameter_matrices(const Graph& graph, const ChunkCode& code, const Mesh& mesh);

}  // namespace simrun
