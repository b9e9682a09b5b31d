#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "configs/diagnostics.h"

namespace simrun {

// The bytes of a file, plain or gzip'd, in pieces: a trace of gigabytes is never held whole. Counts lines and
// columns from 1.
class ByteSource {
 public:
  static constexpr int end = -1;

  // Throws ConfigError if it cannot be read. Pipes and devices are refused: reading them could wait for ever.
  explicit ByteSource(const std::string& path);
  // Of text in memory, which must outlive it; `name` stands for the file in messages.
  ByteSource(std::string_view text, std::string name);

  // The next byte, 0 to 255, or `end`.
  int peek() { return at_ < size_ || fill() ? static_cast<unsigned char>(piece_[at_]) : end; }
  int next() {
    const int byte = peek();
    if (byte == end) return end;
    ++at_;
    if (byte == '\n') {
      ++line_;
      line_start_ = offset();
    }
    return byte;
  }

  std::int64_t offset() const { return before_ + static_cast<std::int64_t>(at_); }
  const std::string& name() const { return name_; }
  // Of the next byte. In a compressed file, whose lines no editor shows, line 0: place_text() says the rest.
  SourcePosition position() const;
  // "" or " at byte 123 of what it decompresses to".
  std::string place_text() const;
  // Why the bytes ended before the file did, of a compressed file that was cut off or damaged; or "".
  const std::string& fault() const { return fault_; }

 private:
  struct Compressed;  // zlib's file
  bool fill();

  std::string name_;
  std::shared_ptr<Compressed> file_;
  std::vector<char> buffer_;
  const char* piece_ = nullptr;
  std::size_t at_ = 0, size_ = 0;
  std::int64_t before_ = 0;  // bytes before the piece
  std::int64_t line_ = 1, line_start_ = 0;
  bool is_compressed_ = false;
  std::string fault_;
};

}  // namespace simrun
