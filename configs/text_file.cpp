#include "configs/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace simrun {

TextFile read_text_file(const std::string& path, std::size_t most) {
  const std::size_t enough = most + 1;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return {std::nullopt, "no such file"};
  if (error) return {std::nullopt, error.message()};
  if (std::filesystem::is_directory(status)) return {std::nullopt, "it is a directory"};
  if (!std::filesystem::is_regular_file(status)) return {std::nullopt, "it is not a regular file"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return {std::nullopt, std::strerror(errno)};
  // In growing pieces: most files are small, and clearing `most` bytes for each costs more than reading it.
  constexpr std::size_t least = std::size_t{16} << 10;
  std::string text;
  while (file && text.size() < enough) {
    const std::size_t before = text.size();
    text.resize(std::min(before + std::max(before, least), enough));
    file.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return {std::nullopt, std::strerror(errno)};
  return {std::move(text), ""};
}

}  // namespace simrun
