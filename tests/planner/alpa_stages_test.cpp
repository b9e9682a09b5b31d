#include "planner/alpa_stages.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

namespace simrun {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Layers of given seconds on one device; a mesh of n divides them by n.
StageCosts divided_layers(const std::vector<double>& layers, int devices, std::vector<int> meshes) {
  StageCosts costs(static_cast<int>(layers.size()), devices, meshes, static_cast<int>(layers.size()));
  for (int following = 0; following < costs.most_stages; ++following)
    for (int mesh = 0; mesh < static_cast<int>(meshes.size()); ++mesh)
      for (int first = 0; first < costs.layers; ++first) {
        double sum = 0;
        for (int last = first + 1; last <= costs.layers; ++last) {
          sum += layers[static_cast<std::size_t>(last - 1)];
          costs.seconds[costs.index(following, mesh, first, last)] =
              sum / meshes[static_cast<std::size_t>(mesh)];
        }
      }
  return costs;
}

// Every way to cut the layers behind `first` over what is left of the devices.
double by_trying_all(const StageCosts& costs, int microbatches, int stages_left, int first, int devices,
                     double sum, double slowest) {
  if (first == costs.layers)
    return devices == 0 && stages_left == 0 ? sum + (microbatches - 1) * slowest : never;
  if (stages_left == 0) return never;
  double best = never;
  for (int mesh = 0; mesh < static_cast<int>(costs.mesh_devices.size()); ++mesh)
    for (int last = first + 1; last <= costs.layers; ++last) {
      const int left = devices - costs.mesh_devices[static_cast<std::size_t>(mesh)];
      const double own = costs.seconds[costs.index(stages_left - 1, mesh, first, last)];
      if (left < 0 || own == never) continue;
      best = std::min(best, by_trying_all(costs, microbatches, stages_left - 1, last, left,
                                          sum + own + costs.handover[costs.handover_index(mesh, last)],
                                          std::max(slowest, own)));
    }
  return best;
}

}  // namespace

TEST_CASE("four equal layers on two devices are two stages of two") {
  const StageCosts costs = divided_layers({1, 1, 1, 1}, 2, {1});
  const auto best = best_partition(costs, 8);
  REQUIRE(best);
  CHECK(best->stages == std::vector<PlacedStage>{{0, 2, 0, 2}, {2, 4, 0, 2}});
  CHECK(best->seconds == 2 + 2 + 7 * 2);
}

TEST_CASE("a heavy layer gets a mesh of its own, and the mesh is larger") {
  // 1 + 1 on one device each way, 6 on three: (2 | 6 / 3).
  const StageCosts costs = divided_layers({1, 1, 6}, 4, {1, 3});
  const auto best = best_partition(costs, 100);
  REQUIRE(best);
  CHECK(best->stages == std::vector<PlacedStage>{{0, 2, 0, 2}, {2, 3, 1, 2}});
}

TEST_CASE("what a handover costs moves the cut") {
  StageCosts costs = divided_layers({2, 1, 1, 2}, 2, {1});
  costs.handover[costs.handover_index(0, 2)] = 100;  // behind the second layer
  const auto best = best_partition(costs, 2);
  REQUIRE(best);
  CHECK(best->stages.front().last != 2);
  CHECK(best->seconds == 6 + 4);  // (2 | 4) or (4 | 2): 2 + 4 + 1 x 4
}

TEST_CASE("memory: a stage that fits only near the end stands there") {
  StageCosts costs = divided_layers({1, 1, 1}, 2, {1});
  // Two layers fit only where no stage follows.
  costs.seconds[costs.index(1, 0, 0, 2)] = never;
  const auto best = best_partition(costs, 4);
  REQUIRE(best);
  CHECK(best->stages == std::vector<PlacedStage>{{0, 1, 0, 1}, {1, 3, 0, 2}});
  costs.seconds.assign(costs.seconds.size(), never);
  CHECK_FALSE(best_partition(costs, 4));
}

TEST_CASE("a stage lies in a node, or begins with one") {
  // 3 devices for the heavy layer behind one for the light ones would lie in both nodes of 2 devices.
  StageCosts costs = divided_layers({1, 1, 6}, 4, {1, 2, 3});
  REQUIRE(best_partition(costs, 100)->stages.back().mesh == 2);
  costs.node_devices = 2;
  const auto best = best_partition(costs, 100);
  REQUIRE(best);
  int begin = 0;
  for (const PlacedStage& stage : best->stages) {
    const int devices = costs.mesh_devices[static_cast<std::size_t>(stage.mesh)];
    CHECK((begin % 2 == 0 || devices == 1));
    begin += devices;
  }
  CHECK(begin == 4);
}

TEST_CASE("the dynamic program finds what trying everything finds") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const int layers = 1 + static_cast<int>(random() % 5);
    const int devices = 1 + static_cast<int>(random() % 5);
    StageCosts costs(layers, devices, {1, 1, 2}, layers);
    for (double& seconds : costs.seconds)
      seconds = random() % 8 == 0 ? never : static_cast<double>(1 + random() % 30);
    for (double& seconds : costs.handover) seconds = static_cast<double>(random() % 4);
    const int microbatches = 1 + static_cast<int>(random() % 9);
    CAPTURE(round, layers, devices, microbatches);
    double expected = never;
    for (int stages = 1; stages <= layers; ++stages)
      expected = std::min(expected, by_trying_all(costs, microbatches, stages, 0, devices, 0, 0));
    const auto best = best_partition(costs, microbatches);
    CHECK(best.has_value() == (expected < never));
    if (!best) continue;
    CHECK(best->seconds == expected);
    const auto within = best_partition(costs, microbatches, expected);
    REQUIRE(within);
    CHECK(within->seconds == expected);
    CHECK_FALSE(best_partition(costs, microbatches, expected - 0.5));
  }
}

TEST_CASE("layers are clustered into groups of nearly equal weight") {
  CHECK(cluster_layers({1, 1, 1, 1, 1, 1}, 3) == std::vector<int>{2, 4, 6});
  CHECK(cluster_layers({5, 1, 1, 1, 1, 1}, 2) == std::vector<int>{1, 6});
  CHECK(cluster_layers({1, 2, 3}, 3) == std::vector<int>{1, 2, 3});
}

TEST_CASE("stages of equal length are made of whole units, however few these may be") {
  CHECK(stage_units(4, 2, 8) == std::vector<int>{1, 2, 3, 4});
  CHECK(stage_units(12, 2, 4) == std::vector<int>{3, 6, 9, 12});
  for (const int layers : {24, 48, 96})
    for (const int stages : {1, 2, 3, 6, 8, 12, 24})
      for (const int most : {1, 5, 16, 32, 48, 100}) {
        CAPTURE(layers, stages, most);
        const std::vector<int> ends = stage_units(layers, stages, most);
        CHECK(static_cast<int>(ends.size()) <= std::max(stages, std::min(layers, most)));
        for (int s = 1; s <= stages; ++s)
          CHECK(std::binary_search(ends.begin(), ends.end(), s * layers / stages));
      }
}

}  // namespace simrun
