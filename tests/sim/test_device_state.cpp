#include <catch2/catch.hpp>

#include "sim/device_state.h"

namespace simrun {
namespace {

IssuedOperation operation(Index issue) {
  IssuedOperation of;
  of.issue = issue;
  return of;
}

}  // namespace

TEST_CASE("A stream whose queue is never empty keeps what is in flight, in order, and little more") {
  StreamState stream;
  constexpr Index in_flight = 5, operations = 1000;
  for (Index issued = 0; issued < operations; ++issued) {
    stream.queue.push_back(operation(issued));
    if (issued < in_flight) continue;
    REQUIRE(stream.front().issue == issued - in_flight);
    stream.pop();
    REQUIRE(stream.queue.size() - stream.head == in_flight);
  }
  CHECK(stream.queue.capacity() <= 64);
  for (Index left = 0; left < in_flight; ++left) {
    REQUIRE(!stream.empty());
    CHECK(stream.front().issue == operations - in_flight + left);
    stream.pop();
  }
  CHECK(stream.empty());
}

}  // namespace simrun
