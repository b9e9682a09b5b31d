#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

// Memory of a rank's optimizer step that is free again behind each use: `elements` without shape.
Index add_step_buffer(Plan& plan, const std::string& name, Dtype dtype, std::int64_t elements);

// The same of matrices as they lie in a parameter: [count, leading, trailing], whose rows may be either.
// `split`: names of the axes over which ranks have parts of the leading and of the trailing dimension.
struct StoredMatrices {
  std::int64_t count = 1, leading = 1, trailing = 1;
  std::string leading_split, trailing_split;
};
Index add_step_buffer(Plan& plan, const std::string& name, Dtype dtype, const StoredMatrices& matrices);

// Buffers of one Newton-Schulz iteration over `count` matrices of rows <= columns. The views give the same
// bytes the other names that a product needs: D[m, n] = A[m, k] B[k, n] goes by names.
struct NewtonSchulzBuffers {
  struct Iterate {
    Index whole = no_index;       // [count, rows, columns]
    Index transposed = no_index;  // view: rows by their second name
    Index right = no_index;       // view: rows by their third name
  };
  Iterate x[2];                                  // read and written in turn
  Index gram = no_index, gram_right = no_index;  // [count, rows, rows]: X X', and a view of it
  Index square = no_index;                       // [count, rows, rows]: the polynomial in it
};

// One set of them per shape, for all matrices of a rank one behind the other.
class MatrixWorkspace {
 public:
  const NewtonSchulzBuffers& of(Plan& plan, std::int64_t count, std::int64_t rows, std::int64_t columns,
                                Dtype dtype);

 private:
  std::map<std::vector<std::int64_t>, NewtonSchulzBuffers> known_;
};

}  // namespace simrun
