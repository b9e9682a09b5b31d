#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/device.h"

namespace simrun {

// Elements of a row of an experts' buffer.
std::int64_t width_of_rows(const Argument& rows);

// What a rank's rows have of the dimensions behind [experts, capacity]; of two ranks what both have, or
// nothing: rows may be split over ranks on one side of an exchange and their columns on the other.
TensorPart columns_of(const TensorPart& part);
std::optional<TensorPart> common_columns(const TensorPart& a, const TensorPart& b);

// These rows of an experts' buffer, ascending, one behind the other, and back. REQUIRES: it has the columns.
struct RowsPart {
  const std::vector<std::int64_t>& numbers;
  const TensorPart& columns;
};
std::vector<std::byte> pack_rows(Device& device, const Argument& from, const RowsPart& rows);
void unpack_rows(Device& device, const std::vector<std::byte>& payload, const Argument& to,
                 const RowsPart& rows, Combine combine);

// Of one operand, these rows are the other, whose columns it has.
struct RowCopy {
  const Argument& from;
  const Argument& to;
};
void copy_rows(Device& device, const RowCopy& copy, const std::vector<std::int64_t>& numbers);

}  // namespace simrun
