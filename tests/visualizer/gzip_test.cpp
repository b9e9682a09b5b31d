#include "visualizer/gzip.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>

namespace simrun {

namespace {

// Reads a gzip file back with zlib; "broken" if it is none or goes on behind its end.
std::string inflated(const std::string& file, std::size_t size) {
  z_stream stream{};
  constexpr int only_gzip = 15 + 16;
  REQUIRE(inflateInit2(&stream, only_gzip) == Z_OK);
  std::string bytes(size + 1, '\0');
  std::string input = file;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  const int result = inflate(&stream, Z_FINISH);
  bytes.resize(stream.total_out);
  const bool whole = result == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return whole ? bytes : "broken";
}

std::string noise(std::size_t size) {
  std::string bytes;
  unsigned state = 1;
  for (std::size_t i = 0; i < size; ++i) {
    state = state * 1664525U + 1013904223U;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace

TEST_CASE("gzip files read back to what was put in, checksum and length included") {
  const std::string bytes =
      GENERATE(std::string(), std::string("a"), std::string(3'000'000, 'x'), noise(1'000'000));
  CHECK(inflated(gzip(bytes), bytes.size()) == bytes);
}

TEST_CASE("gzip files carry no time, no name and no operating system, so equal bytes give equal files") {
  const std::string file = gzip("some text");
  CHECK(file.substr(0, 4) == std::string("\x1f\x8b\x08\0", 4));  // magic, deflate, no flags: no name
  CHECK(file.substr(4, 4) == std::string(4, '\0'));              // time
  CHECK(file[9] == '\xff');                                      // system unknown
  CHECK(gzip("some text") == file);
}

}  // namespace simrun
