#pragma once

#include <optional>
#include <string>

namespace simrun {

// The bytes of a regular file (no pipe, no device: those could block or never end), or nothing. Reads little
// more than a config may be long, so that a wrong path to a huge file costs nothing.
std::optional<std::string> read_text_file(const std::string& path);

}  // namespace simrun
