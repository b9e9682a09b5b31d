#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// The page's wire format: columns of integers, one after the other, without names; visualizer/src/columns.ts
// reads them in the same order. A column is its length and then its values as zigzag LEB128, so small values
// of either sign take one byte; what repeats is left to deflate. Columns that hold noise are planes instead:
// length, number of planes, then the lowest byte of every value's zigzag, the next byte of every value, and
// so on, so that the bytes that are noise lie together and the others pack. Values must stay below 2^52 in
// size: JavaScript reads them into doubles.
class ColumnWriter {
 public:
  void add(const std::vector<std::int64_t>& values);
  void add_differences(const std::vector<std::int64_t>& values);  // v0, v1 - v0, v2 - v1, ...
  void add_planes(const std::vector<std::int64_t>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  void put(std::uint64_t value);
  void put_signed(std::int64_t value);
  std::string bytes_;
};

std::string raw_deflate(const std::string& bytes);  // RFC 1951, no header
std::string base64(const std::string& bytes);       // RFC 4648 with padding

}  // namespace simrun
