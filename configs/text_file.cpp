#include "configs/text_file.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace simrun {

std::optional<std::string> read_text_file(const std::string& path) {
  constexpr std::size_t enough = (std::size_t{1} << 20) + 1;  // read_yaml refuses more than 1 MiB
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(enough, '\0');
  file.read(text.data(), static_cast<std::streamsize>(enough));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace simrun
