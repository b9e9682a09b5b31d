#include "backend/row_copies.h"

#include <numeric>

namespace simrun {

std::int64_t width_of_rows(const Argument& rows) {
  std::int64_t width = 1;
  for (std::size_t d = 2; d < rows.part.size(); ++d) width *= rows.part[d].extent;
  return width;
}

namespace {

// The buffer as a matrix of rows.
Argument as_matrix(const Argument& argument) {
  const std::int64_t rows = argument.rows->size(), width = width_of_rows(argument);
  return {argument.buffer, {{0, rows, rows}, {0, width, width}}, argument.data};
}

// Calls visit(part) for every run of neighbouring rows.
template <class Visit>
void for_each_run_of_rows(const Argument& matrix, const std::vector<std::int64_t>& numbers, Visit visit) {
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    TensorPart part = matrix.part;
    part[0].first = numbers[i];
    part[0].extent = static_cast<std::int64_t>(end - i);
    visit(part);
    i = end;
  }
}

}  // namespace

std::vector<std::byte> pack_rows(Device& device, const Argument& from,
                                 const std::vector<std::int64_t>& numbers) {
  const Argument matrix = as_matrix(from);
  std::vector<std::byte> payload;
  for_each_run_of_rows(matrix, numbers, [&](const TensorPart& part) {
    const std::vector<std::byte> run = device.pack(matrix, part);
    payload.insert(payload.end(), run.begin(), run.end());
  });
  return payload;
}

void unpack_rows(Device& device, const std::vector<std::byte>& payload, const Argument& to,
                 const std::vector<std::int64_t>& numbers, Combine combine) {
  if (numbers.empty()) return;
  const Argument matrix = as_matrix(to);
  const auto row_bytes = static_cast<std::ptrdiff_t>(payload.size() / numbers.size());
  auto from = payload.begin();
  for_each_run_of_rows(matrix, numbers, [&](const TensorPart& part) {
    const auto end = from + part[0].extent * row_bytes;
    device.unpack({from, end}, matrix, part, combine);
    from = end;
  });
}

void copy_rows(Device& device, const RowCopy& copy, const std::vector<std::int64_t>& numbers) {
  std::vector<std::int64_t> all(numbers.size());
  std::iota(all.begin(), all.end(), 0);
  unpack_rows(device, pack_rows(device, copy.from, numbers), copy.to, all, Combine::assign);
}

}  // namespace simrun
