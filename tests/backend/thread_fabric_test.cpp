#include "backend/thread_fabric.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "models/philox.h"

// Ranks as threads: messages arrive in order, and nobody waits for what cannot come.
namespace simrun {
namespace {

using std::chrono::milliseconds;

Message number(std::int64_t value) { return {value, {}}; }

}  // namespace

TEST_CASE("messages of one tag between two ranks arrive in the order in which they were sent") {
  ThreadFabric fabric(2, milliseconds(10'000));
  std::vector<std::int64_t> arrived;
  const std::string failure = fabric.run([&](std::int64_t rank, Transport& transport) {
    if (rank == 0)
      for (const std::int64_t value : {1, 2, 3}) transport.send(1, {7, value % 2}, number(value));
    else
      for (const std::int64_t instance : {1, 0, 1})
        arrived.push_back(transport.receive(0, {7, instance}, "a test").elements);
  });
  CHECK(failure == "");
  CHECK(arrived == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("a deadlock is noticed at once and says who waits for whom in what") {
  ThreadFabric fabric(3, milliseconds(60'000));
  const auto start = std::chrono::steady_clock::now();
  const std::string failure = fabric.run([](std::int64_t rank, Transport& transport) {
    if (rank < 2) transport.receive(1 - rank, {0, 0}, rank == 0 ? "the forward pass" : "the backward pass");
  });
  CHECK(failure ==
        "no rank can go on: rank 0 waits for rank 1 in the forward pass; rank 1 waits for rank 0 in the "
        "backward pass");
  CHECK(std::chrono::steady_clock::now() - start < milliseconds(10'000));
}

TEST_CASE("waiting for a rank that has ended is a deadlock") {
  ThreadFabric fabric(2, milliseconds(60'000));
  const std::string failure = fabric.run([](std::int64_t rank, Transport& transport) {
    if (rank == 1) transport.receive(0, {0, 3}, "entry 4");
  });
  CHECK(failure == "no rank can go on: rank 1 waits for rank 0, which has ended, in entry 4");
}

TEST_CASE("a rank that throws ends the others, and its own words are told") {
  ThreadFabric fabric(16, milliseconds(60'000));
  std::atomic<int> went_on = 0;
  const std::string failure = fabric.run([&](std::int64_t rank, Transport& transport) {
    if (rank == 5) throw std::runtime_error("the disk is full");
    transport.receive(5, {0, 0}, "the gradient sum");
    ++went_on;
  });
  CHECK(failure == "rank 5: the disk is full");
  CHECK(went_on == 0);
}

TEST_CASE("a message that does not come within the limit is an error that names it") {
  ThreadFabric fabric(2, milliseconds(50));
  std::atomic<bool> over = false;
  const std::string failure = fabric.run([&](std::int64_t rank, Transport& transport) {
    if (rank == 0) {
      while (!over) std::this_thread::sleep_for(milliseconds(1));  // busy, not waiting
      return;
    }
    try {
      transport.receive(0, {0, 0}, "entry 1");
    } catch (...) {
      over = true;
      throw;
    }
  });
  CHECK(failure == "after 0.05 s, rank 1 waits for rank 0 in entry 1");
}

// Random123's known answers (kat_vectors, philox4x32 10).
TEST_CASE("Philox gives the numbers of Salmon et al.") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

}  // namespace simrun
