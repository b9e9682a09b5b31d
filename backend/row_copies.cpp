#include "backend/row_copies.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace simrun {

std::int64_t width_of_rows(const Argument& rows) {
  std::int64_t width = 1;
  for (std::size_t d = 2; d < rows.part.size(); ++d) width *= rows.part[d].extent;
  return width;
}

TensorPart columns_of(const TensorPart& part) {
  return {part.begin() + std::min<std::ptrdiff_t>(2, std::ssize(part)), part.end()};
}

std::optional<TensorPart> common_columns(const TensorPart& a, const TensorPart& b) {
  return common_part(columns_of(a), columns_of(b));
}

namespace {

// The buffer as rows of its columns.
Argument as_rows(const Argument& argument) {
  TensorPart part{{0, argument.rows->size(), argument.rows->size()}};
  const TensorPart columns = columns_of(argument.part);
  part.insert(part.end(), columns.begin(), columns.end());
  return {argument.buffer, std::move(part), argument.data};
}

// Calls visit(part) for every run of neighbouring rows.
template <class Visit>
void for_each_run_of_rows(const RowsPart& rows, std::int64_t of, Visit visit) {
  const std::vector<std::int64_t>& numbers = rows.numbers;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    TensorPart part{{numbers[i], static_cast<std::int64_t>(end - i), of}};
    part.insert(part.end(), rows.columns.begin(), rows.columns.end());
    visit(part);
    i = end;
  }
}

}  // namespace

std::vector<std::byte> pack_rows(Device& device, const Argument& from, const RowsPart& rows) {
  const Argument all = as_rows(from);
  std::vector<std::byte> payload;
  for_each_run_of_rows(rows, from.rows->size(), [&](const TensorPart& part) {
    const std::vector<std::byte> run = device.pack(all, part);
    payload.insert(payload.end(), run.begin(), run.end());
  });
  return payload;
}

void unpack_rows(Device& device, const std::vector<std::byte>& payload, const Argument& to,
                 const RowsPart& rows, Combine combine) {
  if (rows.numbers.empty()) return;
  const Argument all = as_rows(to);
  const auto row_bytes = static_cast<std::ptrdiff_t>(payload.size() / rows.numbers.size());
  auto from = payload.begin();
  for_each_run_of_rows(rows, to.rows->size(), [&](const TensorPart& part) {
    const auto end = from + part[0].extent * row_bytes;
    device.unpack({from, end}, all, part, combine);
    from = end;
  });
}

void copy_rows(Device& device, const RowCopy& copy, const std::vector<std::int64_t>& numbers) {
  std::vector<std::int64_t> all(numbers.size());
  std::iota(all.begin(), all.end(), 0);
  const TensorPart columns = columns_of(copy.to.part);
  unpack_rows(device, pack_rows(device, copy.from, {numbers, columns}), copy.to, {all, columns},
              Combine::assign);
}

}  // namespace simrun
