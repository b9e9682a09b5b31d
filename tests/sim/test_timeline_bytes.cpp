#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <stdexcept>

#include "sim/timeline_bytes.h"

namespace simrun {

namespace {

// 1, 2, 3 ..: every field differs from its default and from the others.
struct Numbers {
  std::int64_t last = 0;

  std::int64_t next() { return ++last; }
  template <std::size_t count>
  std::array<std::int64_t, count> next_of() {
    std::array<std::int64_t, count> result{};
    for (std::int64_t& number : result) number = next();
    return result;
  }
};

RankTimeline rank_timeline(std::int32_t pipeline_rank, Numbers& numbers) {
  RankTimeline rank;
  rank.pipeline_rank = pipeline_rank;
  rank.device = numbers.next();
  rank.multiplicity = numbers.next();
  rank.totals.compute = numbers.next();
  rank.totals.exposed = numbers.next_of<traffic_count>();
  rank.totals.bubble = numbers.next_of<bubble_cause_count>();
  rank.totals.hidden = numbers.next_of<traffic_count>();
  rank.peak = {numbers.next(), numbers.next_of<category_count>(), 5, 6};
  rank.lanes = {{1, {{10, 20, 30, 4, 5}, {11, 21, 31, 6, 7}}}, {2, {}}, {3, {{-12, 22, 32, 8, 9}}}};
  rank.passes = {{40, 50, 6}, {41, 51, 7}};
  rank.memory = {{60, numbers.next_of<category_count>()}};
  return rank;
}

Timeline full_timeline() {
  Numbers numbers;
  Timeline timeline;
  timeline.step = 123456789012345;
  timeline.first_step = 123456789012399;
  timeline.engine = "simgrid";
  timeline.engine_reason = "asked for";
  timeline.contention_bound = 0.25;
  timeline.provenance = std::string("seed\0 7", 7);
  timeline.instructions = 17;
  timeline.communication_instructions = 9;
  timeline.ranks = {rank_timeline(0, numbers), rank_timeline(1, numbers), RankTimeline{}};
  timeline.links = {{"node0.nic3.tx", 50e9, 8, 1000, 200, 30, {0.5F, 1.0F}},
                    {"rail3.leaf0.spine1.up", 1, 2, 3, 4, 5, {}}};
  return timeline;
}

}  // namespace

TEST_CASE("a timeline with every field filled comes back equal from its bytes") {
  const Timeline timeline = full_timeline();
  CHECK((timeline_from_bytes(to_bytes(timeline)) == timeline));
  CHECK((timeline_from_bytes(to_bytes(Timeline{})) == Timeline{}));
  CHECK_FALSE((timeline_from_bytes(to_bytes(timeline)) == Timeline{}));
}

TEST_CASE("the bytes of a timeline cut short anywhere, or with more behind, are refused") {
  const std::string bytes = to_bytes(full_timeline());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE_THROWS_AS(timeline_from_bytes(bytes.substr(0, size)), std::runtime_error);
  }
  CHECK_THROWS_AS(timeline_from_bytes(bytes + 'x'), std::runtime_error);
  CHECK_THROWS_AS(timeline_from_bytes(std::string(bytes.size(), '\xff')), std::runtime_error);
}

}  // namespace simrun
