// Communication kernels take multiprocessors from the compute that they overlap.
#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/simulate.h"
#include "tests/sim/plan_builder.h"
#include "tests/sim/random_plan.h"

namespace simrun {

namespace {

// A device of 4 multiprocessors of which communication occupies one: compute beside it runs at 3/4.
Plan with_interference(Plan plan) {
  plan.cluster.gpu.sm_count = 4;
  plan.cluster.gpu.communication_sms = 1;
  return plan;
}

Picoseconds hidden(const Timeline& timeline, Traffic traffic) {
  return timeline.ranks[0].totals.hidden[static_cast<std::size_t>(traffic)];
}

}  // namespace

TEST_CASE("a kernel runs slower while a communication is in flight, and at full speed before and after") {
  PlanBuilder builder(1);
  const std::uint8_t dp = builder.stream("dp", Traffic::data);
  const Index a = builder.token(), b = builder.token(), c = builder.token(), d = builder.token();
  const Index pass =
      builder.segment(PassKind::forward, {builder.compute(20, {}, {a}), builder.all_reduce(dp, 40, {a}, {b}),
                                          builder.compute(90, {a}, {c}), builder.compute(10, {b, c}, {d})});
  builder.entry(0, pass);
  CHECK(simulate(builder.plan).step == 120);
  for (const EngineChoice engine : {EngineChoice::fast, EngineChoice::simgrid}) {
    const Timeline timeline = simulate(with_interference(builder.plan), {Detail::instructions, engine});
    // The second kernel does 30 of its 90 ps from 20 to 60, beside the all-reduce, and 60 from 60 to 120.
    const std::vector<Interval>& compute = timeline.ranks[0].lanes[compute_stream].intervals;
    REQUIRE(compute.size() == 3);
    CHECK(compute[0].duration == 20);
    CHECK(compute[1].start == 20);
    CHECK(compute[1].duration == 100);
    CHECK(compute[2].start == 120);
    CHECK(compute[2].duration == 10);
    CHECK(timeline.step == 130);
    CHECK(timeline.ranks[0].totals.compute == 130);
    CHECK(hidden(timeline, Traffic::data) == 40);
  }
}

TEST_CASE("two communications at once take no more than one, copies take nothing") {
  PlanBuilder builder(1);
  const std::uint8_t dp = builder.stream("dp", Traffic::data), tp = builder.stream("tp", Traffic::tensor);
  const std::uint8_t host = builder.stream("offload", Traffic::offload);
  const Index a = builder.token(), b = builder.token(), c = builder.token(), d = builder.token(),
              e = builder.token();
  const Index pass =
      builder.segment(PassKind::forward, {builder.compute(10, {}, {a}), builder.all_reduce(dp, 40, {a}, {b}),
                                          builder.all_reduce(tp, 20, {a}, {c}),
                                          builder.copy(host, 1000, {a}, {d}), builder.compute(60, {a}, {e})});
  builder.entry(0, pass);
  const Timeline timeline = simulate(with_interference(builder.plan), {Detail::instructions});
  // Slowed from 10 to 50: 30 of the 60 ps are done by then, and 30 more take until 80.
  CHECK(timeline.ranks[0].lanes[compute_stream].intervals[1].duration == 70);
  CHECK(timeline.step == 1010);  // the copy
}

TEST_CASE("with a transfer to another rank both ends' kernels are slowed, each only while it is in flight") {
  PlanBuilder builder(2);
  const std::uint8_t out = builder.stream("send", Traffic::pipeline),
                     in = builder.stream("recv", Traffic::pipeline);
  const Index a = builder.token(), b = builder.token(), c = builder.token(), d = builder.token();
  builder.entry(
      0, builder.segment(PassKind::forward, {builder.compute(100, {}, {a}), builder.send(out, 60, a, 1, 0),
                                             builder.compute(90, {a}, {b})}));
  builder.entry(
      1, builder.segment(PassKind::forward, {builder.recv(in, 60, c, 0, 0), builder.compute(145, {}, {d}),
                                             builder.compute(10, {c}, {})}));
  // Rank 0: 45 of 90 ps from 100 to 160, 45 more until 205. Rank 1: 100 by 100, the other 45 until 160;
  // then 10.
  const Timeline timeline = simulate(with_interference(builder.plan), {Detail::instructions});
  const auto compute = [&](std::size_t rank, std::size_t i) {
    const Interval& interval = timeline.ranks[rank].lanes[compute_stream].intervals[i];
    return std::pair(interval.start, interval.start + interval.duration);
  };
  CHECK(compute(0, 1) == std::pair<Picoseconds, Picoseconds>(100, 205));
  CHECK(compute(1, 0) == std::pair<Picoseconds, Picoseconds>(0, 160));
  CHECK(compute(1, 1) == std::pair<Picoseconds, Picoseconds>(160, 170));
  CHECK(timeline.step == 205);
}

TEST_CASE(
    "a share of next to nothing gives the times of none, a share gives no less and no more than its all") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Plan plan = random_plan(seed, {1'000'000, seed % 2 == 0});
    const Timeline without = simulate(plan, {Detail::totals});
    plan.cluster.gpu.sm_count = 1'000'000'000;
    plan.cluster.gpu.communication_sms = 1;
    const Timeline with_little = simulate(plan, {Detail::totals});
    REQUIRE(static_cast<double>(with_little.step) == Approx(static_cast<double>(without.step)).epsilon(1e-7));
    const Timeline slowed = simulate(with_interference(plan), {Detail::totals});
    REQUIRE(slowed.ranks.size() == without.ranks.size());
    for (std::size_t r = 0; r < without.ranks.size(); ++r) {
      const auto before = static_cast<double>(without.ranks[r].totals.compute);
      const auto after = static_cast<double>(slowed.ranks[r].totals.compute);
      REQUIRE(after >= before);
      REQUIRE(after <= before * 4 / 3 * (1 + 1e-6));
      // What compute lost is a quarter of the time in which a communication was in flight beside it.
      const RankTotals& totals = slowed.ranks[r].totals;
      Picoseconds beside = 0;
      for (const Picoseconds of : totals.hidden) beside += of;
      REQUIRE(after - before <= static_cast<double>(beside) / 4 + 1e3);
    }
  }
}

TEST_CASE("with interference SimGrid agrees with the fast engine where no transfers share a link", "[long]") {
  constexpr Picoseconds microsecond = 1'000'000;
  int compared = 0, slowed = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    Plan plan = random_plan(seed, {microsecond, seed % 8 == 0});
    plan.cluster.nodes = static_cast<std::int64_t>(plan.stages.size());
    plan.cluster.gpus_per_node = plan.cluster.nics_per_node = 2;
    plan.cluster.inter_node.latency_s = 1.9e-6;
    const Picoseconds without = simulate(plan).step;
    plan = with_interference(std::move(plan));
    if (seed % 2 == 0) plan.cluster.imperfections.jitter.coefficient_of_variation = 0.1;
    const Timeline simgrid = simulate(plan, {Detail::totals, EngineChoice::simgrid});
    if (std::any_of(simgrid.links.begin(), simgrid.links.end(),
                    [](const LinkTimeline& link) { return link.contended > 0; }))
      continue;
    ++compared;
    const Timeline fast = simulate(plan, {Detail::totals, EngineChoice::fast});
    REQUIRE(static_cast<double>(simgrid.step) == Approx(static_cast<double>(fast.step)).epsilon(1e-7));
    slowed += fast.step > without ? 1 : 0;
  }
  CAPTURE(compared, slowed);
  CHECK(compared >= 30);
  CHECK(2 * slowed >= compared);
}

}  // namespace simrun
