#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace simrun {

// Output files appear whole or not at all: written beside the target, then renamed onto it.

// "" if a file can be written at `path`, else why not. Leaves nothing behind.
std::string probe_output(const std::string& path);

// The system refused a write: a full disk, a closed pipe. Not our bug, not the job's fault.
class OutputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `synced`: on the disk when it returns, and before it takes the place of what was there, so that a machine
// that loses its power has one or the other.
enum class Durability : std::uint8_t { cached, synced };

// Throws OutputError with the system's reason; the target is then as it was.
void write_output(const std::string& path, const std::string& bytes,
                  Durability durability = Durability::cached);

}  // namespace simrun
