#pragma once

#include <cstdint>

namespace simrun {

// Where a CPU rank's buffers come from, and nothing else: 64-byte aligned. A program may bring its own two
// functions in place of the library's, to count what ranks really take (tests/allocation).
void* take_device_memory(std::int64_t bytes);
void return_device_memory(void* memory, std::int64_t bytes);

}  // namespace simrun
