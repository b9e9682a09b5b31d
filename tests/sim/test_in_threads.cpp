#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/in_threads.h"

namespace simrun {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
TEST_CASE("under AddressSanitizer, which forks do not survive beside threads, the caller does all") {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> by_others = 0;
  in_threads(7, 20, [&](unsigned, std::size_t) {
    by_others += std::this_thread::get_id() != caller;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // long enough for others to take some
  });
  CHECK(by_others == 0);
}
#endif
#endif

// Long, since sanitized builds have one thread.
TEST_CASE("every number is taken once, by any number of threads", "[long]") {
  for (const unsigned threads : {1U, 2U, 7U})
    for (const std::size_t numbers : {std::size_t{0}, std::size_t{1}, std::size_t{100}}) {
      std::vector<std::atomic<int>> taken(numbers);
      in_threads(threads, numbers, [&](unsigned thread, std::size_t i) {
        if (thread < threads) ++taken[i];
      });
      for (const std::atomic<int>& times : taken) CHECK(times == 1);
    }
}

TEST_CASE("of several failures the one with the least number is thrown, after all calls", "[long]") {
  for (const unsigned threads : {1U, 4U}) {
    std::atomic<int> calls = 0;
    const auto work = [&](unsigned, std::size_t i) {
      ++calls;
      if (i % 3 == 2) throw std::invalid_argument("number " + std::to_string(i));
    };
    CHECK_THROWS_WITH(in_threads(threads, 20, work), "number 2");
    CHECK(calls == 20);
  }
}

}  // namespace simrun
