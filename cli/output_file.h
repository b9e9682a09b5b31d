#pragma once

#include <string>

namespace simrun {

// Output files appear whole or not at all: written beside the target, then renamed onto it.

// "" if a file can be written at `path`, else why not. Leaves nothing behind.
std::string probe_output(const std::string& path);

// Throws std::runtime_error with the system's reason (disk full, ...); the target is then as it was.
void write_output(const std::string& path, const std::string& bytes);

}  // namespace simrun
