#pragma once

#include <cstdint>
#include <vector>

namespace simrun {

// What this program allocates, counted where it is allocated: malloc and its kin, and what ranks take as
// device memory (backend/device_memory.h), which is not among the former. It knows of no plan.
struct AllocationCounts {
  std::vector<std::int64_t> device_peaks;  // of every thread that took device memory, ascending
  std::int64_t other_peak = 0;             // of the whole process, beyond what was there at the start
};

// Counts what `run` allocates. One at a time.
AllocationCounts count_allocations(void (*run)(void*), void* of);

template <class Run>
AllocationCounts count_allocations(Run run) {
  return count_allocations([](void* of) { (*static_cast<Run*>(of))(); }, &run);
}

}  // namespace simrun
