#include "visualizer/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace simrun {

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int with_gzip_header = 15 + 16;  // window bits, and zlib's flag for the format
  constexpr int level = 3;  // of a trace: 2.5 times as fast as the default, and a quarter larger
  if (deflateInit2(&stream, level, Z_DEFLATED, with_gzip_header, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib cannot start: out of memory");
  gz_header header{};  // time 0: none
  header.os = 255;     // unknown
  deflateSetHeader(&stream, &header);
  // zlib's interface is not const-correct; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  std::string out;
  std::size_t unread = bytes.size();
  int result = Z_OK;
  while (result != Z_STREAM_END) {
    constexpr std::size_t most_in = std::numeric_limits<uInt>::max(), piece = std::size_t{1} << 18;
    const std::size_t offered = std::min(unread, most_in);
    stream.avail_in = static_cast<uInt>(offered);
    const std::size_t written = out.size();
    out.resize(written + piece);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(piece);
    result = deflate(&stream, offered == unread ? Z_FINISH : Z_NO_FLUSH);
    unread -= offered - stream.avail_in;
    out.resize(out.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace simrun
