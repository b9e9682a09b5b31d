#include "backend/device_memory.h"

#include <cstddef>
#include <new>

namespace simrun {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

void* take_device_memory(std::int64_t bytes) {
  return ::operator new(static_cast<std::size_t>(bytes), alignment);
}

void return_device_memory(void* memory, std::int64_t) { ::operator delete(memory, alignment); }

}  // namespace simrun
