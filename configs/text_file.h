#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace simrun {

// A file's text, or why it cannot be read. Of a file longer than `most` bytes (by default what read_yaml
// accepts) one byte more is read, so that the reader sees that it is too long. Pipes and devices are refused:
// reading them could wait for ever.
struct TextFile {
  std::optional<std::string> text;
  std::string reason;
};
TextFile read_text_file(const std::string& path, std::size_t most = std::size_t{1} << 20);

}  // namespace simrun
