#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/device.h"

namespace simrun {

// Elements of a row of an experts' buffer.
std::int64_t width_of_rows(const Argument& rows);

// Rows of an experts' buffer with these numbers, ascending, one behind the other, and back.
std::vector<std::byte> pack_rows(Device& device, const Argument& from,
                                 const std::vector<std::int64_t>& numbers);
void unpack_rows(Device& device, const std::vector<std::byte>& payload, const Argument& to,
                 const std::vector<std::int64_t>& numbers, Combine combine);

// Of one operand, these rows are the other.
struct RowCopy {
  const Argument& from;
  const Argument& to;
};
void copy_rows(Device& device, const RowCopy& copy, const std::vector<std::int64_t>& numbers);

}  // namespace simrun
