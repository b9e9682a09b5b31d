#pragma once

#include <vector>

#include "schedules/optimizer_update.h"

namespace simrun {

// Adafactor (Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 and 5), without a first moment: three
// passes over the gradients.
//   1  sums of squared gradients over rows and columns of every matrix
//   2  the root mean square of every matrix' and vector's update, by which it is clipped (section 6); each
//      expert's are clipped alone, so that it does not matter which ranks have the others
//   3  the update
// Where ranks hold parts of a matrix, sums over a dimension that is cut are all-reduced before they are used:
// under tensor parallelism those over the split dimension; under ZeRO both, since shards of a flat bucket end
// within rows. Of rows' moments a shard keeps its part (FSDP2's division of the state), and adds what it
// keeps, decayed, to the sums: what is all-reduced are the new moments. The root mean squares, one number
// each, are all-reduced over all of these ranks.
std::vector<Instruction> adafactor_update(const UpdateContext& context, const ParameterBucket& bucket);

// Elements of the second moments that one rank keeps of a bucket: a row's and a column's mean per matrix, and
// each element of a vector.
struct FactoredElements {
  std::int64_t rows = 0;     // of matrices, cut by ZeRO, and elements of vectors
  std::int64_t columns = 0;  // of matrices
};
FactoredElements factored_elements(const ParameterBucket& bucket);

}  // namespace simrun
