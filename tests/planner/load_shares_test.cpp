#include "planner/load_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "models/philox.h"

namespace simrun {
namespace {

using Shares = std::vector<std::int64_t>;

constexpr std::int64_t plenty = 1000;

// Takes `fixed` whatever its share.
TimedTaker timed(const LoadTaker& taker, double fixed = 0) {
  TimedTaker by_time{{}, taker.room};
  for (std::int64_t units = 1; units <= 20; ++units)
    by_time.seconds[units] = fixed + static_cast<double>(units) / taker.speed;
  return by_time;
}

double last_done(const std::vector<TimedTaker>& takers, const Shares& shares) {
  double last = 0;
  for (std::size_t i = 0; i < takers.size(); ++i) last = std::max(last, takers[i].seconds.at(shares[i]));
  return last;
}

// Of all ways to give each of three takers at least one unit within its room.
double best_of_all(const std::vector<TimedTaker>& takers, std::int64_t units) {
  double best = 1e30;
  for (std::int64_t a = 1; a <= std::min(takers[0].room, units); ++a)
    for (std::int64_t b = 1; b <= std::min(takers[1].room, units - a); ++b) {
      const std::int64_t c = units - a - b;
      if (c >= 1 && c <= takers[2].room) best = std::min(best, last_done(takers, {a, b, c}));
    }
  return best;
}

}  // namespace

TEST_CASE(
    "shares are proportional to speed: of eight units three quarters go to who is three times as fast") {
  CHECK(whale_shares({{3, plenty}, {1, plenty}}, 8) == Shares{6, 2});
  CHECK(fastest_shares({timed({3, plenty}), timed({1, plenty})}, 8) == Shares{6, 2});
}

TEST_CASE("whole units by the largest remainder: 256 over 8 V100 and 8 P100 in fp32 are 19 and 13 each") {
  // 256 x 15.7 / (8 x 15.7 + 8 x 10.6) = 19.1 and 12.9
  std::vector<LoadTaker> takers(8, {15.7, plenty});
  takers.insert(takers.end(), 8, {10.6, plenty});
  Shares expected(8, 19);
  expected.insert(expected.end(), 8, 13);
  CHECK(whale_shares(takers, 256) == expected);
}

TEST_CASE("what one has no memory for goes to another, unit by unit until all fit") {
  // 6 + 2, of which the first holds 3: one move, as printed in the paper, would leave it 5.
  CHECK(whale_shares({{3, 3}, {1, plenty}}, 8) == Shares{3, 5});
  // The one that would be done first takes it: (2 + 1) / 2 is less than (1 + 1) / 1.
  CHECK(whale_shares({{5, 4}, {2, plenty}, {1, plenty}}, 8) == Shares{4, 3, 1});
}

TEST_CASE("what a stage has beside its layers counts: of 12 + 2 equal speeds take 7 each") {
  CHECK(whale_shares({{1, plenty}, {1, plenty, 2}}, 12) == Shares{7, 5});
}

TEST_CASE("everybody takes part, and what fits nowhere has no shares") {
  CHECK(whale_shares({{1000, plenty}, {1, plenty}}, 4) == Shares{3, 1});
  CHECK(whale_shares({{3, 3}, {1, 4}}, 8).empty());
  CHECK(whale_shares({{3, plenty}, {1, 0}}, 8).empty());
  CHECK(fastest_shares({timed({1, plenty}), timed({1, plenty})}, 1).empty());
}

TEST_CASE("unlike layers are cut where the sums of their loads are nearest to the shares") {
  CHECK(cut_by_load({2, 2, 2, 2, 2, 2}, {3, 2, 1}) == Shares{3, 2, 1});
  // Four encoder layers of 1 and four decoder layers of 3: halves of 8 are 4 + 4/3, thus 5 layers and 3.
  CHECK(cut_by_load({1, 1, 1, 1, 3, 3, 3, 3}, {4, 4}) == Shares{5, 3});
  // Everybody takes part, however light or heavy the rest.
  CHECK(cut_by_load({1, 1, 100}, {1, 1, 1}) == Shares{1, 1, 1});
  CHECK(cut_by_load({100, 1, 1}, {1, 1, 1}) == Shares{1, 1, 1});
}

TEST_CASE("a fixed time counts: equal speeds, one begins four units later") {
  CHECK(fastest_shares({timed({1, plenty}, 4), timed({1, plenty})}, 8) == Shares{2, 6});
}

TEST_CASE("times of other shares lie between the measured ones, and beyond them in proportion") {
  // 2 units take 2 s and 6 take 10: 4 take 6, so 4 + 4 are done in 6 s, one less here and one more there
  // in 7.5.
  CHECK(fastest_shares({{{{2, 2.0}, {6, 10.0}}, plenty}, {{{4, 6.0}}, plenty}}, 8) == Shares{4, 4});
}

TEST_CASE("fastest shares are the best of all, and Whale's keep to memory, over random devices") {
  for (std::int64_t round = 0; round < 200; ++round) {
    CAPTURE(round);
    const RandomStream random(7, "load", round);
    std::vector<LoadTaker> takers;
    std::vector<TimedTaker> by_time;
    for (std::int64_t i = 0; i < 3; ++i) {
      takers.push_back(
          {1 + 9 * random.uniform(3 * i), 1 + static_cast<std::int64_t>(12 * random.uniform(3 * i + 1))});
      by_time.push_back(timed(takers.back(), 2 * random.uniform(3 * i + 2)));
    }
    const std::int64_t units = 3 + static_cast<std::int64_t>(12 * random.uniform(9));
    const Shares fastest = fastest_shares(by_time, units), whale = whale_shares(takers, units);
    CHECK(fastest.empty() == whale.empty());
    if (fastest.empty()) continue;
    CHECK(last_done(by_time, fastest) == Approx(best_of_all(by_time, units)).epsilon(1e-12));
    for (const Shares* shares : {&fastest, &whale}) {
      CHECK(std::accumulate(shares->begin(), shares->end(), std::int64_t{0}) == units);
      for (std::size_t i = 0; i < takers.size(); ++i)
        CHECK(((*shares)[i] >= 1 && (*shares)[i] <= takers[i].room));
    }
  }
}

}  // namespace simrun
