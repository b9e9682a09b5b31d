#include "backend/core_gate.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace simrun {

int available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return std::max(CPU_COUNT(&mask), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()),
                  1);  // more cores than the mask holds
}

void CoreGate::enter() {
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return free_ > 0; });
  --free_;
}

void CoreGate::leave() {
  {
    const std::lock_guard lock(mutex_);
    ++free_;
  }
  left_.notify_one();
}

}  // namespace simrun
