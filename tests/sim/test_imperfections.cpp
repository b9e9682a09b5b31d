// Stragglers and jitter: by hand, against the reference engine and against SimGrid.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "schedules/compile.h"
#include "sim/kernel_slowdowns.h"
#include "sim/simulate.h"
#include "tests/jobs.h"
#include "tests/sim/plan_builder.h"
#include "tests/sim/random_plan.h"
#include "tests/sim/reference_engine.h"

namespace simrun {

namespace {

constexpr std::size_t imbalance_index = static_cast<std::size_t>(BubbleCause::imbalance);
constexpr std::size_t drain = static_cast<std::size_t>(BubbleCause::drain);
constexpr std::size_t tensor_index = static_cast<std::size_t>(Traffic::tensor);

// Two GPUs: 100 ps of compute, a tensor-parallel all-reduce of 50, 30 of compute behind it.
Plan tensor_parallel_pass() {
  PlanBuilder builder(1);
  const std::uint8_t tp = builder.stream("tp", Traffic::tensor);
  const Index a = builder.token(), b = builder.token(), c = builder.token();
  const Index pass = builder.segment(
      PassKind::forward,
      {builder.compute(100, {}, {a}), builder.all_reduce(tp, 50, {a}, {b}), builder.compute(30, {b}, {c})});
  builder.entry(0, pass);
  return builder.plan;
}

Straggler straggler(std::vector<std::int64_t> gpus, double slowdown) {
  return {.name = "hot", .gpus = std::move(gpus), .slowdown = slowdown};
}

Imperfections random_imperfections(unsigned seed, std::int64_t world) {
  Imperfections imperfections;
  imperfections.seed = seed;
  if (seed % 3 != 0)
    imperfections.jitter = {static_cast<JitterDistribution>(seed / 3 % 3), seed % 2 == 0 ? 0.02 : 0.25};
  if (seed % 3 != 1) imperfections.stragglers.push_back(straggler({seed % world}, 1 + (1 + seed % 7) / 4.0));
  return imperfections;
}

}  // namespace

TEST_CASE("a collective waits for the straggler of its group") {
  Plan plan = tensor_parallel_pass();
  CHECK(simulate(plan).step == 180);
  CHECK(simulate(plan).ranks.size() == 1);
  plan.cluster.imperfections.stragglers = {straggler({1}, 1.5)};
  const Timeline timeline = simulate(plan);
  // GPU 1 computes 150 ps, both reduce until 200, GPU 1 computes 45 more.
  CHECK(timeline.step == 245);
  REQUIRE(timeline.ranks.size() == 2);
  const RankTimeline &alike = timeline.ranks[0], &slow = timeline.ranks[1];
  CHECK(alike.device == 0);
  CHECK(alike.totals.compute == 130);
  CHECK(alike.totals.bubble[imbalance_index] == 50);  // from 100 to 150
  CHECK(alike.totals.exposed[tensor_index] == 50);
  CHECK(alike.totals.bubble[drain] == 15);  // from 230 to 245
  CHECK(slow.device == 1);
  CHECK(slow.totals.compute == 195);
  CHECK(slow.totals.bubble_total() == 0);
  CHECK(timeline.engine_reason.find("one GPU does not stand for all of its stage: some GPUs straggle") !=
        std::string::npos);
}

TEST_CASE("slowdowns of several entries multiply, a node is all its GPUs, and drawn GPUs are distinct") {
  Cluster cluster;
  cluster.nodes = 3;
  cluster.gpus_per_node = 4;
  cluster.imperfections.stragglers = {straggler({5, 9}, 1.5),
                                      {.name = "old", .nodes = {1}, .slowdown = 1.25}};
  const KernelSlowdowns slowdowns(cluster);
  CHECK(slowdowns.of_gpu(3) == 1);
  CHECK(slowdowns.of_gpu(4) == 1.25);
  CHECK(slowdowns.of_gpu(5) == 1.5 * 1.25);
  CHECK(slowdowns.of_gpu(9) == 1.5);
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    cluster.imperfections.seed = seed;
    const std::vector<std::int64_t> drawn = straggling_gpus(cluster, {.name = "lottery", .count = 12});
    for (std::int64_t gpu = 0; gpu < 12; ++gpu) REQUIRE(drawn[static_cast<std::size_t>(gpu)] == gpu);
  }
  std::map<std::int64_t, int> times;
  for (std::int64_t seed = 0; seed < 1200; ++seed) {
    cluster.imperfections.seed = seed;
    for (const std::int64_t gpu : straggling_gpus(cluster, {.name = "lottery", .count = 2})) ++times[gpu];
  }
  // Each of 12 GPUs is one of the two in a sixth of the draws: 200 +- 13 of 1200.
  REQUIRE(times.size() == 12);
  for (const auto& [gpu, count] : times) CHECK(std::abs(count - 200) < 65);
}

TEST_CASE("jitter has mean 1, the coefficient of variation that was asked for, and the shape") {
  struct Case {
    JitterDistribution distribution;
    double cv, skewness;  // of a lognormal one: (e^(s^2) + 2) sqrt(e^(s^2) - 1) = 3 cv + cv^3
  };
  for (const Case& of : {Case{JitterDistribution::normal, 0.1, 0}, Case{JitterDistribution::uniform, 0.1, 0},
                         Case{JitterDistribution::lognormal, 0.1, 0.301}}) {
    Cluster cluster;
    cluster.nodes = 1;
    cluster.gpus_per_node = 4;
    cluster.imperfections.jitter = {of.distribution, of.cv};
    const KernelSlowdowns slowdowns(cluster);
    double sum = 0, squares = 0, cubes = 0, most = 0;
    constexpr int draws = 40'000;
    for (int i = 0; i < draws; ++i) {
      const double x =
          slowdowns.of({i % 4, static_cast<Index>(i / 4 % 100), static_cast<Index>(i / 400)}) - 1;
      sum += x;
      squares += x * x;
      cubes += x * x * x;
      most = std::max(most, x + 1);
    }
    CAPTURE(static_cast<int>(of.distribution));
    CHECK(sum / draws == Approx(0).margin(4 * of.cv / 200));
    CHECK(std::sqrt(squares / draws) == Approx(of.cv).epsilon(0.02));
    CHECK(cubes / draws / std::pow(of.cv, 3) == Approx(of.skewness).margin(0.06));
    CHECK(most <= slowdowns.most());
  }
}

TEST_CASE("jitter is the same for the same seed, another for another, and no two GPUs are alike") {
  Plan plan = tensor_parallel_pass();
  plan.cluster.imperfections.jitter.coefficient_of_variation = 0.3;
  const Timeline timeline = simulate(plan, {Detail::instructions});
  CHECK(simulate(plan, {Detail::instructions}) == timeline);
  REQUIRE(timeline.ranks.size() == 2);
  CHECK(timeline.ranks[0].totals.compute != timeline.ranks[1].totals.compute);
  plan.cluster.imperfections.seed = 1;
  CHECK(simulate(plan).step != timeline.step);
}

TEST_CASE("with jitter and stragglers the fast engine agrees with the reference engine to the picosecond") {
  int slower = 0;
  for (unsigned seed = 0; seed < 240; ++seed) {
    CAPTURE(seed);
    Plan plan = random_plan(seed, {1000, true});
    const Picoseconds without = simulate(plan).step;
    plan.cluster.imperfections =
        random_imperfections(seed, static_cast<std::int64_t>(2 * plan.stages.size()));
    const ReferenceRun reference = reference_run(plan);
    const Timeline timeline = simulate(plan, {Detail::instructions});
    REQUIRE(timeline.step == reference.step);
    slower += timeline.step > without ? 1 : 0;
    std::map<std::int32_t, std::size_t> known;  // GPUs, by pipeline rank
    for (const RankTimeline& rank : timeline.ranks) {
      const auto stage = static_cast<std::size_t>(rank.pipeline_rank);
      const auto gpu = static_cast<std::size_t>(rank.device - plan.stages[stage].devices[0].first);
      REQUIRE(rank.totals.compute == reference.totals[2 * stage + gpu].compute);
      REQUIRE(rank.totals.exposed == reference.totals[2 * stage + gpu].exposed);
      REQUIRE(rank.totals.bubble == reference.totals[2 * stage + gpu].bubble);
      REQUIRE(rank.totals.hidden == reference.totals[2 * stage + gpu].hidden);
      known[rank.pipeline_rank] += static_cast<std::size_t>(rank.multiplicity);
      for (const Lane& lane : rank.lanes)
        for (const Interval& i : lane.intervals)
          REQUIRE(std::pair(i.start, i.duration) == reference.times.at({2 * stage, i.entry, i.instruction}));
    }
    for (const auto& [rank, gpus] : known) REQUIRE(gpus == 2);
  }
  CHECK(slower > 180);
}

TEST_CASE("where no transfers share a link, SimGrid agrees with the fast engine on imperfect clusters",
          "[long]") {
  constexpr Picoseconds microsecond = 1'000'000;
  int compared = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Plan plan = random_plan(seed, {microsecond, seed % 8 == 0});
    plan.cluster.nodes = static_cast<std::int64_t>(plan.stages.size());
    plan.cluster.gpus_per_node = plan.cluster.nics_per_node = 2;
    plan.cluster.intra_node.latency_s = 0.7e-6;
    plan.cluster.inter_node.latency_s = 1.9e-6;
    plan.cluster.imperfections = random_imperfections(seed, 2 * plan.cluster.nodes);
    plan.cluster.imperfections.links = {{"slow", "node0.*", 0.5, 2e-6}};
    const Timeline simgrid = simulate(plan, {Detail::totals, EngineChoice::simgrid});
    const Timeline fast = simulate(plan, {Detail::totals, EngineChoice::fast});
    const bool shares = std::any_of(simgrid.links.begin(), simgrid.links.end(),
                                    [](const LinkTimeline& link) { return link.contended > 0; });
    if (shares) continue;
    ++compared;
    REQUIRE(static_cast<double>(simgrid.step) == Approx(static_cast<double>(fast.step)).epsilon(1e-7));
  }
  CAPTURE(compared);
  CHECK(compared >= 40);
}

// Of a sequence in contiguous parts the first GPU computes nothing in the ring's later steps, and the last
// one most: what is scaled is each GPU's own time.
TEST_CASE("a straggler by a hair leaves a ring's unequal work as it is") {
  const auto step = [](std::vector<Override> overrides) {
    overrides.push_back({"parallelism.context_parallel_size", "8"});
    overrides.push_back({"parallelism.context_parallel_layout", "contiguous"});
    overrides.push_back({"training.attention", "flash"});
    overrides.push_back({"training.seq_length", "16384"});
    overrides.push_back({"model.max_position_embeddings", "16384"});
    return static_cast<double>(simulate(compile(job_from(small_gpt(2, 1, 1, 1), overrides))).step);
  };
  const double alone = step({});
  CHECK(step({{"imperfections.stragglers", "{hot: {gpus: [0], slowdown: 1.0001}}"}}) ==
        Approx(alone).epsilon(1e-4));
  CHECK(step({{"imperfections.stragglers", "{hot: {gpus: [7], slowdown: 1.2}}"}}) > 1.1 * alone);
  CHECK(step({{"cluster.gpu.communication_sms", "1"}}) == Approx(alone).epsilon(0.02));
}

}  // namespace simrun
