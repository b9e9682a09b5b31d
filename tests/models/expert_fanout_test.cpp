#include "models/expert_fanout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>

namespace simrun {
namespace {

ExpertConfig experts(std::int64_t count, std::int64_t topk, std::int64_t groups = 0,
                     std::int64_t topk_groups = 0) {
  ExpertConfig config;
  config.count = count;
  config.topk = topk;
  config.groups = groups;
  config.topk_groups = topk_groups;
  return config;
}

// The same by going through every choice of experts; counts destinations of those that groups allow.
double counted(const ExpertConfig& config, std::int64_t destinations) {
  const std::int64_t groups = std::max<std::int64_t>(config.groups, 1);
  const std::int64_t open_groups = std::max<std::int64_t>(config.topk_groups, 1);
  std::int64_t sum = 0, choices = 0;
  for (std::uint32_t open = 0; open < 1u << groups; ++open) {
    if (__builtin_popcount(open) != open_groups) continue;
    for (std::uint32_t chosen = 0; chosen < 1u << config.count; ++chosen) {
      if (__builtin_popcount(chosen) != config.topk) continue;
      std::uint32_t reached = 0;
      bool allowed = true;
      for (std::int64_t e = 0; e < config.count; ++e) {
        if ((chosen >> e & 1) == 0) continue;
        allowed &= (open >> (e * groups / config.count) & 1) == 1;
        reached |= 1u << (e * destinations / config.count);
      }
      if (!allowed) continue;
      ++choices;
      sum += __builtin_popcount(reached);
    }
  }
  return static_cast<double>(sum) / static_cast<double>(choices);
}

}  // namespace

TEST_CASE("a token's experts are on as many nodes as counting every choice says") {
  // 2 of 8 experts on 4 nodes: a node is missed by C(6,2) / C(8,2) = 15/28, so 4 x 13/28 = 13/7.
  CHECK(expected_destinations(experts(8, 2), 4) == Approx(13.0 / 7));
  for (const std::int64_t topk : {1, 2, 3, 4})
    for (const std::int64_t destinations : {1, 2, 4, 8}) {
      CAPTURE(topk, destinations);
      CHECK(expected_destinations(experts(8, topk), destinations) ==
            Approx(counted(experts(8, topk), destinations)));
      for (const std::int64_t groups : {2, 4}) {
        const ExpertConfig grouped = experts(8, topk, groups, groups / 2);
        CHECK(expected_destinations(grouped, destinations) == Approx(counted(grouped, destinations)));
      }
    }
}

TEST_CASE("DeepSeek-V3's tokens go to 3.63 of their at most 4 nodes") {
  // 8 of 256 experts, all in 4 of 8 nodes of 32: a chosen node is missed by C(96,8) / C(128,8) = 0.0927.
  double missed = 1;
  for (int i = 0; i < 8; ++i) missed *= (96.0 - i) / (128.0 - i);
  const ExpertConfig v3 = experts(256, 8, 8, 4);
  CHECK(expected_nodes(v3, 4, 8) == Approx(4 * (1 - missed)));
  CHECK(expected_nodes(v3, 4, 8) == Approx(3.63).epsilon(0.001));
  // A limit that the groups do not keep by themselves caps; without groups it makes them.
  CHECK(expected_nodes(v3, 3, 8) == 3);
  CHECK(expected_nodes(experts(256, 8), 4, 8) == Approx(4 * (1 - missed)));
  CHECK(expected_nodes(experts(256, 8), 0, 8) > 5);
}

TEST_CASE("no more destinations than experts of a token, or than there are, and no fewer than one") {
  for (const std::int64_t topk : {1, 2, 6, 8, 64})
    for (const std::int64_t destinations : {1, 2, 4, 8, 16, 64}) {
      CAPTURE(topk, destinations);
      const double expected = expected_destinations(experts(64, topk), destinations);
      CHECK(expected > 1 - 1e-9);
      CHECK(expected < static_cast<double>(std::min(topk, destinations)) + 1e-9);
      if (topk == 1 || destinations == 1) CHECK(expected == Approx(1));
      if (topk == 64) CHECK(expected == Approx(destinations));
      if (destinations == 64) CHECK(expected == Approx(topk));
    }
}

}  // namespace simrun
