#include "planner/in_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace simrun {

void in_threads(unsigned threads, std::size_t numbers,
                const std::function<void(unsigned thread, std::size_t number)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t failed = numbers;  // the least number
  std::exception_ptr failure;
  const auto run = [&](unsigned thread) {
    for (std::size_t i = next++; i < numbers; i = next++) {
      try {
        work(thread, i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) failure = std::current_exception();
        failed = std::min(failed, i);
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < std::min<std::size_t>(threads, numbers); ++t) others.emplace_back(run, t);
    run(0);
  }
  if (failure) std::rethrow_exception(failure);
}

// AddressSanitizer's allocator has locks that a fork of a process with several threads may leave held in the
// child, and SimGrid runs in children (sim/worker.h): glibc's takes care of it, LLVM 14's does not.
unsigned thread_per_processor() {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return 1;
#endif
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace simrun
