#include "visualizer/columns.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace simrun {

void ColumnWriter::put(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(0x80 | (value & 0x7f));
  bytes_ += static_cast<char>(value);
}

namespace {

std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0);
}

}  // namespace

void ColumnWriter::put_signed(std::int64_t value) { put(zigzag(value)); }

void ColumnWriter::add(const std::vector<std::int64_t>& values) {
  put(values.size());
  for (const std::int64_t value : values) put_signed(value);
}

void ColumnWriter::add_differences(const std::vector<std::int64_t>& values) {
  put(values.size());
  std::int64_t before = 0;
  for (const std::int64_t value : values) {
    put_signed(value - before);
    before = value;
  }
}

void ColumnWriter::add_planes(const std::vector<std::int64_t>& values) {
  std::uint64_t largest = 0;
  for (const std::int64_t value : values) largest = std::max(largest, zigzag(value));
  int planes = 0;
  for (; largest > 0; largest >>= 8) ++planes;
  put(values.size());
  put(static_cast<std::uint64_t>(planes));
  for (int plane = 0; plane < planes; ++plane)
    for (const std::int64_t value : values)
      bytes_ += static_cast<char>((zigzag(value) >> (8 * plane)) & 0xff);
}

std::string raw_deflate(const std::string& bytes) {
  z_stream stream{};
  constexpr int no_header = -15;  // negative window bits: raw deflate
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, no_header, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib cannot start: out of memory");
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  // zlib's interface is not const-correct; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("zlib did not finish: payload above 4 GiB");
  return out;
}

std::string base64(const std::string& bytes) {
  constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned long group = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      group = (group << 8) | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0UL);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : digits[(group >> (18 - 6 * j)) & 0x3f];
  }
  return out;
}

}  // namespace simrun
