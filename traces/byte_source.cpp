#include "traces/byte_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

namespace simrun {
namespace {

constexpr unsigned piece_bytes = 1U << 18;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw ConfigError({{{path, 0, 0}, "cannot read the trace: " + why, ""}});
}

void check_readable(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) refuse(path, "no such file");
  if (error) refuse(path, error.message());
  if (!std::filesystem::is_regular_file(status)) refuse(path, "it is not a regular file");
}

}  // namespace

struct ByteSource::Compressed {
  explicit Compressed(const std::string& path) : file(gzopen(path.c_str(), "rb")) {}
  ~Compressed() {
    if (file != nullptr) gzclose(file);
  }
  Compressed(const Compressed&) = delete;
  Compressed& operator=(const Compressed&) = delete;
  gzFile file;
};

ByteSource::ByteSource(const std::string& path) : name_(path) {
  check_readable(path);
  errno = 0;
  file_ = std::make_shared<Compressed>(path);
  if (file_->file == nullptr) refuse(path, errno != 0 ? std::strerror(errno) : "not enough memory");
  gzbuffer(file_->file, piece_bytes);
  buffer_.resize(piece_bytes);
  piece_ = buffer_.data();
  fill();
  is_compressed_ = gzdirect(file_->file) == 0;
  if (size_ == 0 && !fault_.empty()) refuse(path, fault_);
}

ByteSource::ByteSource(std::string_view text, std::string name)
    : name_(std::move(name)), piece_(text.data()), size_(text.size()) {}

bool ByteSource::fill() {
  if (!file_ || !fault_.empty()) return false;
  before_ += static_cast<std::int64_t>(size_);
  at_ = size_ = 0;
  const int read = gzread(file_->file, buffer_.data(), piece_bytes);
  int code = Z_OK;
  const char* const message = gzerror(file_->file, &code);
  if (read > 0) size_ = static_cast<std::size_t>(read);
  if (code == Z_BUF_ERROR)
    fault_ = "the compressed file was cut off";
  else if (code == Z_ERRNO)
    fault_ = std::strerror(errno);
  else if (read < 0)
    fault_ = fmt::format("the compressed file is damaged ({})", message);
  return size_ > 0;
}

SourcePosition ByteSource::position() const {
  if (is_compressed_) return {name_, 0, 0};
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return {name_, static_cast<int>(std::min(line_, most)),
          static_cast<int>(std::min(offset() - line_start_ + 1, most))};
}

std::string ByteSource::place_text() const {
  return is_compressed_ ? fmt::format(" at byte {} of what it decompresses to", offset()) : "";
}

}  // namespace simrun
