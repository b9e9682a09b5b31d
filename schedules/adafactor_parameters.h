#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

// What Adafactor's kernels need to know of one parameter of a bucket: matrices with means by row and by
// column, or vectors with one of every element. Buffers go by their number among those that a bucket's
// REDUCEs write, sums first to be added up over ranks; -1: nothing is.
struct FactoredParameter {
  std::int64_t matrices = 0;           // 0: vectors
  std::int64_t rows = 1, columns = 1;  // on the rank; of vectors the elements of one, and how many there are
  bool columns_first = false;          // in memory: [columns, rows]
  std::int64_t whole_rows = 1,
               whole_columns = 1;  // over all ranks, without padding; of vectors elements and 1
  bool divides_rows = false;       // among ranks that have other rows of the same columns
  std::int64_t norms = 0;          // one number per matrix or vector: its squared updates
  std::int64_t row_sums = -1, column_sums = -1;
  // Ranks among those of the sum that keep the same moments.
  std::int64_t row_copies = 1, column_copies = 1;
  bool operator==(const FactoredParameter&) const = default;

  bool is_vector() const { return matrices == 0; }
  std::int64_t count() const { return is_vector() ? columns : matrices; }  // what is clipped by its own norm
  std::int64_t elements() const { return is_vector() ? rows : rows * columns; }  // of one of them
};

// Behind the seven numbers of an update come a -1 and the numbers of every parameter. Plans up to version 22
// have four of each and no -1: they say nothing of parts.
void append_parameters(std::vector<double>& constants, const std::vector<FactoredParameter>& parameters);
std::vector<FactoredParameter> factored_parameters(const Instruction& of);
bool tells_parts(const Instruction& of);

}  // namespace simrun
