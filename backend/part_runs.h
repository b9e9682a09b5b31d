#pragma once

#include "backend/operations.h"

namespace simrun {

// Rows of a part of an argument's part: calls visit(first element in the argument, first in the part, count).
template <class Visit>
void for_each_run(const Argument& argument, const TensorPart& part, Visit visit) {
  if (part.empty()) return visit(std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
  const std::int64_t run = part.back().extent, rows = run == 0 ? 0 : elements(part) / run;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row, stride = argument.part.back().extent;
    std::int64_t first = part.back().first - argument.part.back().first;
    for (std::size_t d = part.size() - 1; d-- > 0;) {
      first += (part[d].first - argument.part[d].first + rest % part[d].extent) * stride;
      rest /= part[d].extent;
      stride *= argument.part[d].extent;
    }
    visit(first, row * run, run);
  }
}

}  // namespace simrun
