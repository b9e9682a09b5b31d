#pragma once

#include <optional>
#include <string>

namespace simrun {

// A file's text, at most a little more than read_yaml accepts, or why it cannot be read. Pipes and devices
// are refused: reading them could wait for ever.
struct TextFile {
  std::optional<std::string> text;
  std::string reason;
};
TextFile read_text_file(const std::string& path);

}  // namespace simrun
