#include "tests/allocation/allocation_counts.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "backend/device_memory.h"

// glibc's own, behind the names that this file takes over.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace simrun {
namespace {

std::atomic<std::int64_t> live{0}, peak{0};

void* counted(void* memory) {
  if (memory == nullptr) return memory;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  return memory;
}

void forgotten(void* memory) {
  if (memory != nullptr)
    live.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
}

// Of one thread.
struct DeviceCount {
  std::int64_t live = 0, peak = 0;
};
constexpr std::size_t most_threads = 256;
DeviceCount device_counts[most_threads];
std::atomic<std::size_t> device_threads{0};
thread_local DeviceCount* own_count = nullptr;

}  // namespace

void* take_device_memory(std::int64_t bytes) {
  if (own_count == nullptr) own_count = &device_counts[device_threads.fetch_add(1) % most_threads];
  own_count->live += bytes;
  own_count->peak = std::max(own_count->peak, own_count->live);
  return __libc_memalign(64, static_cast<std::size_t>(bytes));
}

void return_device_memory(void* memory, std::int64_t bytes) {
  own_count->live -= bytes;
  __libc_free(memory);
}

AllocationCounts count_allocations(void (*run)(void*), void* of) {
  device_threads = 0;
  std::fill(std::begin(device_counts), std::end(device_counts), DeviceCount{});
  const std::int64_t before = live;
  peak = before;
  run(of);
  AllocationCounts counts;
  counts.other_peak = peak - before;
  for (std::size_t t = 0; t < device_threads; ++t) counts.device_peaks.push_back(device_counts[t].peak);
  std::sort(counts.device_peaks.begin(), counts.device_peaks.end());
  return counts;
}

}  // namespace simrun

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {
void* malloc(std::size_t bytes) { return simrun::counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) { return simrun::counted(__libc_calloc(count, bytes)); }
void* realloc(void* memory, std::size_t bytes) {
  simrun::forgotten(memory);
  return simrun::counted(__libc_realloc(memory, bytes));
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return simrun::counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  simrun::forgotten(memory);
  __libc_free(memory);
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
