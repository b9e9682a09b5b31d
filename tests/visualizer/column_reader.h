#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace simrun {

// The reading side of columns.h.
class ColumnReader {
 public:
  explicit ColumnReader(std::string bytes) : bytes_(std::move(bytes)) {}
  std::vector<std::int64_t> column() {
    std::vector<std::int64_t> values(static_cast<std::size_t>(varint()));
    for (std::int64_t& value : values) value = unfolded(varint());
    return values;
  }
  std::vector<std::int64_t> differences() {
    std::vector<std::int64_t> values = column();
    for (std::size_t i = 1; i < values.size(); ++i) values[i] += values[i - 1];
    return values;
  }
  std::vector<std::int64_t> planes() {
    const auto count = static_cast<std::size_t>(varint());
    const auto planes = static_cast<std::size_t>(varint());
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t zigzag = 0;
      for (std::size_t plane = planes; plane-- > 0;)
        zigzag = (zigzag << 8) | static_cast<unsigned char>(bytes_.at(at_ + plane * count + i));
      values[i] = unfolded(zigzag);
    }
    at_ += planes * count;
    return values;
  }
  bool exhausted() const { return at_ == bytes_.size(); }

 private:
  static std::int64_t unfolded(std::uint64_t zigzag) {
    return static_cast<std::int64_t>(zigzag >> 1) ^ -static_cast<std::int64_t>(zigzag & 1);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.at(at_++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace simrun
