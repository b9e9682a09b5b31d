#include "backend/message_pieces.h"

#include <algorithm>

namespace simrun {

std::vector<TensorPart> message_pieces(const TensorPart& part) {
  const std::int64_t count = elements(part);
  if (count <= message_elements) return {part};
  std::size_t along = 0;
  while (part[along].extent == 1) ++along;
  const std::int64_t row = count / part[along].extent;
  const std::int64_t rows = std::max<std::int64_t>(message_elements / row, 1);
  std::vector<TensorPart> pieces;
  for (std::int64_t begin = 0; begin < part[along].extent; begin += rows) {
    pieces.push_back(part);
    pieces.back()[along] = slice_of(part[along], begin, std::min(rows, part[along].extent - begin));
  }
  return pieces;
}

}  // namespace simrun
