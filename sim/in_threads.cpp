#include "sim/in_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace simrun {

namespace {

// AddressSanitizer's allocator has locks that a fork of a process with several threads may leave held in the
// child, and SimGrid runs in children (sim/worker.h): glibc's and jemalloc's take care of it, LLVM 14's does
// not.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool forks_beside_threads = false;
#elif defined(__has_feature)
constexpr bool forks_beside_threads = !__has_feature(address_sanitizer);
#else
constexpr bool forks_beside_threads = true;
#endif

}  // namespace

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
    const std::size_t most = forks_beside_threads ? std::min<std::size_t>(threads, numbers) : 1;
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < most; ++t) others.emplace_back(run, t);
    run(0);
  }
  if (failure) std::rethrow_exception(failure);
}

unsigned thread_per_processor() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace simrun
