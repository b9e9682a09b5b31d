#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "schedules/plan_message.h"
#include "tests/schedules/plan_refusal.h"
#include "two_stage_plan.h"

// Plan files that are whole, and hold no plan.
namespace simrun {

TEST_CASE("a plan file whose cluster cannot be is refused") {
  const auto refused = [](auto break_cluster) {
    Plan plan = two_stage_plan();
    plan.cluster.nodes = 2;
    plan.cluster.fabric = {FabricTopology::leaf_spine, true, 2, 4, 1, 0};
    break_cluster(plan.cluster);
    return refusal(serialize(plan));
  };
  CHECK(refused([](Cluster&) {}).empty());
  CHECK(refused([](Cluster& cluster) { cluster.nics_per_node = 5; }) ==
        "invalid plan: nics_per_node 5 do not divide over 4 GPUs");
  CHECK(refused([](Cluster& cluster) { cluster.nics_per_node = -1; }) ==
        "invalid plan: a node with 4 GPUs has -1 NICs, not from 1 to 1024");
  CHECK(refused([](Cluster& cluster) { cluster.nodes = std::int64_t{1} << 62; }) ==
        "invalid plan: a cluster of 4611686018427387904 nodes x 4 GPUs is beyond simrun's limits");
  CHECK(refused([](Cluster& cluster) { cluster.gpus_per_node = 0; }) ==
        "invalid plan: a cluster of 2 nodes x 0 GPUs is beyond simrun's limits");
  CHECK(refused([](Cluster& cluster) { cluster.nodes = 1'000'000, cluster.gpus_per_node = 1000; }) ==
        "invalid plan: a cluster of 1000000 nodes x 1000 GPUs is beyond simrun's limits");
  CHECK(refused([](Cluster& cluster) { cluster.nodes = 1, cluster.gpus_per_node = 3; }) != "");
  for (const std::int64_t nodes : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{3},
                                   std::numeric_limits<std::int64_t>::max()})
    CHECK(refused([&](Cluster& cluster) {
            cluster.node_groups = {{"some", nodes, cluster.gpu, cluster.intra_node}};
          }) == "invalid plan: groups of nodes do not add up to the cluster's 2");
  CHECK(refused([](Cluster& cluster) { cluster.inter_node.bandwidth = 0; }) ==
        "invalid plan: inter_node links have bandwidth 0 x 0.8 and latency 5e-06 s");
  CHECK(refused([](Cluster& cluster) { cluster.intra_node.latency_s = -1; }) ==
        "invalid plan: intra_node links have bandwidth 450000000000 x 0.9 and latency -1 s");
  const auto fabric = [&](Fabric wrong) {
    return refused([&](Cluster& cluster) { cluster.fabric = wrong; });
  };
  const std::string sentence = "invalid plan: the fabric has ";
  constexpr FabricTopology leaf_spine = FabricTopology::leaf_spine;
  CHECK(fabric({leaf_spine, true, 0, 4, 1, 0}) ==
        sentence + "0 nodes per leaf, 4 spines, oversubscription 1 and spine latency 0 s");
  CHECK(fabric({leaf_spine, true, 2, 1'000'000'000'000, 1, 0}).starts_with(sentence));
  CHECK(fabric({leaf_spine, true, 2, 4, 0.5, 0}).starts_with(sentence));
  CHECK(fabric({leaf_spine, true, 2, 4, -1, 0}).starts_with(sentence));
  CHECK(fabric({leaf_spine, true, 2, 4, 1, -1}).starts_with(sentence));
  CHECK(fabric({leaf_spine, true, 2, 4, std::nan(""), 0}) ==
        "the plan file is malformed: oversubscription is not a finite number");
  CHECK(fabric({static_cast<FabricTopology>(5), true, 2, 4, 1, 0}) ==
        "the plan file is malformed: unknown fabric topology 5");
  // 1,000,000 nodes x 8 rails
  CHECK(refused([](Cluster& cluster) {
          cluster.nodes = 1'000'000, cluster.gpus_per_node = cluster.nics_per_node = 8;
          cluster.fabric = {FabricTopology::leaf_spine, true, 1, 10'000, 1, 0};
        }) == "invalid plan: 8000000 leaves x 10000 spines have more links than simrun's 1000000000");
}

TEST_CASE("a plan file that lint refuses is refused with all its sentences") {
  Plan plan = two_stage_plan();
  plan.streams.clear();
  plan.chunks[1].pipeline_rank = 2;
  const std::vector<std::string> sentences = lint(plan);
  REQUIRE(sentences.size() > 1);
  try {
    parse_plan(serialize(plan), "some.plan");
    FAIL("accepted");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == sentences.size());
    CHECK(error.diagnostics()[0].message == "invalid plan: " + sentences[0]);
  }
}

TEST_CASE("a message that no plan can hold is malformed") {
  CHECK_THROWS_AS(decode_plan("\xff\xff"), MalformedPlan);
  Plan plan = two_stage_plan();
  plan.segments[0].instructions[0].opcode = static_cast<Opcode>(opcode_count);
  CHECK_THROWS_WITH(decode_plan(encode_plan(plan)), "unknown opcode " + std::to_string(opcode_count));
  plan = two_stage_plan();
  plan.buffers[0].dtype = static_cast<Dtype>(99);
  CHECK_THROWS_WITH(decode_plan(encode_plan(plan)), "unknown dtype 99");
  plan = two_stage_plan();
  plan.cluster.intra_node.latency_s = 1e308 * 10;
  CHECK_THROWS_WITH(decode_plan(encode_plan(plan)), "link latency is not a finite number");
}

}  // namespace simrun
