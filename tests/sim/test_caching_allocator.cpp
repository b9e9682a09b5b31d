#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "sim/caching_allocator.h"

namespace simrun {
namespace {

constexpr std::int64_t mib = 1 << 20;

TEST_CASE("Caching allocator: a request of 3 MiB takes a segment of 20 MiB and leaves 17 for others") {
  CachingAllocator allocator({});
  allocator.allocate(3 * mib);
  CHECK(allocator.allocated() == 3 * mib);
  CHECK(allocator.reserved() == 20 * mib);
  allocator.allocate(17 * mib);  // 10 MiB and more have segments of their own, but there is a block for it
  CHECK(allocator.reserved() == 20 * mib);
  allocator.allocate(3 * mib);
  CHECK(allocator.reserved() == 40 * mib);
}

TEST_CASE("Caching allocator: sizes are rounded up to 512 B, segments to 2 MiB") {
  CachingAllocator allocator({});
  const auto one = allocator.allocate(1);
  CHECK(allocator.size(one) == 512);
  CHECK(allocator.reserved() == 2 * mib);  // the small pool's segment
  const auto large = allocator.allocate(12 * mib + 1);
  CHECK(allocator.reserved() == (2 + 14) * mib);
  CHECK(allocator.size(large) == 12 * mib + 512);  // the rest, 2 MiB - 512 B, is split off
}

TEST_CASE("Caching allocator: a rest of 1 MiB or less stays with the large request and counts as allocated") {
  CachingAllocator allocator({});
  const auto block = allocator.allocate(11 * mib + 1);  // of a segment of 12 MiB
  CHECK(allocator.size(block) == 12 * mib);
  CHECK(allocator.allocated() == 12 * mib);
}

TEST_CASE("Caching allocator: freed memory is used again, the smallest block that holds the request first") {
  CachingAllocator allocator({});
  const auto large = allocator.allocate(40 * mib);
  const auto small = allocator.allocate(30 * mib);
  allocator.release(large);
  allocator.release(small);
  allocator.allocate(30 * mib);  // not from the 40
  allocator.allocate(40 * mib);
  CHECK(allocator.reserved() == 70 * mib);
  CHECK(allocator.peak_allocated() == 70 * mib);
}

TEST_CASE("Caching allocator: 10 MiB are free in pieces of 5, and 8 MiB take a new segment") {
  const bool neighbours = GENERATE(false, true);
  CachingAllocator allocator({});
  std::vector<CachingAllocator::Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(5 * mib));
  CHECK(allocator.reserved() == 20 * mib);
  allocator.release(blocks[0]);
  allocator.release(blocks[neighbours ? 1 : 2]);
  allocator.allocate(8 * mib);
  CHECK(allocator.reserved() == (neighbours ? 20 : 40) * mib);
}

TEST_CASE("Caching allocator: an expandable segment grows by 20 MiB at its end instead") {
  CachingAllocator allocator({.expandable_segments = true});
  const auto first = allocator.allocate(35 * mib);
  CHECK(allocator.reserved() == 40 * mib);
  allocator.allocate(15 * mib);  // 5 MiB at the end and one page
  CHECK(allocator.reserved() == 60 * mib);
  allocator.release(first);
  allocator.allocate(36 * mib);  // 35 are free in front, 10 at the end
  CHECK(allocator.reserved() == 100 * mib);
}

TEST_CASE("Caching allocator: where the device is full, free segments go back before memory is out") {
  CachingAllocator allocator({.capacity = 40 * mib});
  allocator.release(allocator.allocate(24 * mib));
  allocator.allocate(30 * mib);
  CHECK(allocator.reserved() == 30 * mib);
  CHECK_FALSE(allocator.overflowed());
  allocator.allocate(12 * mib);
  CHECK(allocator.overflowed());
}

TEST_CASE(
    "Caching allocator: requested <= allocated <= reserved after every call, and all is free in the end") {
  const bool expandable = GENERATE(false, true);
  const unsigned seed = GENERATE(1u, 2u, 3u, 4u);
  CAPTURE(expandable, seed);
  std::mt19937 random(seed);
  CachingAllocator allocator({.expandable_segments = expandable});
  std::map<CachingAllocator::Block, std::int64_t> live;
  std::int64_t requested = 0;
  for (int call = 0; call < 2000; ++call) {
    if (live.size() < 50 && random() % 3 != 0) {
      const std::int64_t bytes = std::int64_t{1} << (random() % 26);
      const auto block = allocator.allocate(bytes);
      REQUIRE(live.emplace(block, bytes).second);  // a block is never given out twice
      requested += bytes;
    } else if (!live.empty()) {
      const auto freed = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      requested -= freed->second;
      allocator.release(freed->first);
      live.erase(freed);
    }
    std::int64_t held = 0;
    for (const auto& [block, bytes] : live) held += allocator.size(block);
    REQUIRE(allocator.allocated() == held);
    REQUIRE(requested <= held);
    REQUIRE(held <= allocator.reserved());
    REQUIRE(allocator.reserved() % (2 * mib) == 0);
  }
  for (const auto& [block, bytes] : live) allocator.release(block);
  CHECK(allocator.allocated() == 0);
  const std::int64_t reserved = allocator.reserved();
  allocator.allocate(1);  // from what is there
  CHECK(allocator.reserved() == reserved);
}

}  // namespace
}  // namespace simrun
