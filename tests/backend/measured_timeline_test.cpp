#include "backend/measured_timeline.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "backend/thread_fabric.h"
#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/backend/checked_run.h"

// A run's clocks as a Timeline. No test here asks how long anything takes.
namespace simrun {
namespace {

// One pipeline rank of one device; a forward entry of GEMM, ALL_REDUCE on `tp`, GEMM, FREE and a backward
// entry of one GEMM.
Plan two_passes() {
  Plan plan;
  plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                  {"tp", StreamDevice::gpu, Traffic::tensor}};
  plan.stages = {{{{0, 1}}, {{"dense", {}}}}};
  const auto what = [](Opcode opcode, std::uint8_t stream) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.stream = stream;
    return instruction;
  };
  plan.segments = {
      {"F",
       PassKind::forward,
       0,
       {what(Opcode::gemm, 0), what(Opcode::all_reduce, 1), what(Opcode::gemm, 0), what(Opcode::free, 0)}},
      {"B", PassKind::backward, 0, {what(Opcode::gemm, 0)}}};
  plan.programs = {{0, {{0, 0, 1}, {1, 0, 1}}, {{}}}};
  return plan;
}

// Steps of 100 ns that begin at `begin`. Work of the first GEMM: `first`.
MeasuredStep step_at(std::int64_t begin, std::int64_t first) {
  return {begin,
          begin + 100,
          {{0, 0, begin, begin + 30, first, 0},
           {0, 1, begin + 30, begin + 55, 5, 20},  // waits 20, works 5
           {0, 2, begin + 60, begin + 70, 10, 0},  // 5 after the all-reduce
           {0, 3, begin + 70, begin + 71, 1, 0},
           {1, 0, begin + 71, begin + 100, 29, 0}}};
}

std::set<std::tuple<int, Index, Index>> instances(const Timeline& timeline) {
  std::set<std::tuple<int, Index, Index>> all;
  for (const RankTimeline& rank : timeline.ranks)
    for (const Lane& lane : rank.lanes)
      for (const Interval& interval : lane.intervals)
        all.emplace(rank.pipeline_rank, interval.entry, interval.instruction);
  return all;
}

}  // namespace

TEST_CASE("a measured step: each instruction's median work at its place in the step of median length") {
  // The warm-up, of 1000, does not count. Of 20, 28 and 24 the median is 24.
  Measurement measured{
      {{step_at(0, 1000), step_at(1000, 20), step_at(2000, 28), step_at(3000, 24)}}, "cpu f64", 2};
  const Timeline timeline = measured_timeline(two_passes(), measured);
  CHECK(timeline.step == 100'000);  // ps
  CHECK(timeline.instructions == 4);
  CHECK(timeline.communication_instructions == 1);
  CHECK(timeline.provenance == "cpu f64");
  REQUIRE(timeline.ranks.size() == 1);
  const RankTimeline& rank = timeline.ranks[0];
  REQUIRE(rank.lanes.size() == 2);
  CHECK(rank.lanes[0].intervals ==
        std::vector<Interval>{{0, 24'000, 0, 0, 0}, {60'000, 10'000, 0, 0, 2}, {71'000, 29'000, 0, 1, 0}});
  CHECK(rank.lanes[1].intervals == std::vector<Interval>{{50'000, 5'000, 20'000, 0, 1}});
  CHECK(rank.passes == std::vector<PassInterval>{{0, 70'000, 0}, {71'000, 29'000, 1}});
  CHECK(rank.totals.compute == 63'000);  // 24 + 10 + 29
  CHECK(rank.totals.exposed[static_cast<std::size_t>(Traffic::tensor)] == 5'000);
  // From 24 to 50 nothing, 5 more behind the all-reduce, and 1 of FREE: all before the first backward pass.
  CHECK(rank.totals.bubble[static_cast<std::size_t>(BubbleCause::warm_up)] == 32'000);
  CHECK(rank.totals.bubble_total() == 32'000);
  CHECK(measured_step_seconds(measured).median == Approx(100e-9));
  const InstructionCosts costs = measured_costs(two_passes(), measured);
  CHECK(costs.of({0, 0, 0}) == 24'000);
  CHECK(costs.of({0, 1, 0}) == 29'000);
  CHECK_FALSE(costs.of({0, 1, 1}));
}

TEST_CASE("work that took longer in other steps ends where the next instruction began") {
  const Measurement measured{{{step_at(0, 90), step_at(1000, 50)}}, "cpu f64", 1};
  CHECK(measured_timeline(two_passes(), measured).ranks[0].lanes[0].intervals[0].duration == 30'000);
}

TEST_CASE("a spread is the lower of two neighbours") {
  const Spread spread = spread_of({5, 1, 4, 2, 3, 6});
  CHECK(spread.median == 3);
  CHECK(spread.p10 == 1);
  CHECK(spread.p90 == 5);
  CHECK(spread.repetitions == 6);
}

TEST_CASE("a timed run has the same numbers and every instruction that the simulator has") {
  const TinyJob job{
      .parallelism = GENERATE("{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
                              "{pipeline_model_parallel_size: 4}", "{}"),
      .gpus = 4};
  const Plan plan = compile(tiny_job(job));
  const Execution plain = checked_run(plan, ExecutionDevice::cpu_f64, 3);
  const Execution timed = execute(plan, {.steps = 3, .training = {}, .timed = true, .around_transport = {}});
  REQUIRE(timed.failure == "");
  CHECK(timed.loss == plain.loss);
  CHECK(plain.measured.empty());
  const Timeline measured = measured_timeline(plan, timed.measured);
  const Timeline simulated = simulate(plan, {.detail = Detail::instructions});
  CHECK(instances(measured) == instances(simulated));
  CHECK(measured.ranks.size() == 4);
  for (const RankTimeline& rank : measured.ranks) {
    CHECK(rank.totals.compute + rank.totals.exposed_total() + rank.totals.bubble_total() == measured.step);
    for (const Lane& lane : rank.lanes) {
      Picoseconds until = 0;
      for (const Interval& interval : lane.intervals) {
        CHECK(interval.start - interval.wait >= until);
        CHECK(interval.duration >= 0);
        until = interval.start + interval.duration;
      }
      CHECK(until <= measured.step);
    }
  }
}

TEST_CASE("a failing rank ends a timed run as it ends any other") {
  CoreGate gate(1);
  ThreadFabric fabric(3, std::chrono::milliseconds(10'000));
  const std::string failure = fabric.run([&](std::int64_t rank, Transport& transport) {
    RankClock clock(transport, gate, rank, 3);
    if (rank == 2) throw std::runtime_error("out of memory");
    clock.begin_step();
  });
  CHECK(failure == "rank 2: out of memory");
}

TEST_CASE("a device with a clock of its own says what an instruction took") {
  CoreGate gate(1);
  ThreadFabric fabric(1, std::chrono::milliseconds(10'000));
  const std::string failure = fabric.run([&](std::int64_t, Transport& transport) {
    RankClock clock(transport, gate, 0, 1);
    clock.begin_step();
    clock.begin();
    clock.end(0, 0, 5'000'000'000);
    clock.begin();
    clock.end(0, 1);  // the thread's own time
    clock.end_step();
    const std::vector<MeasuredStep> steps = clock.take_steps();
    CHECK(steps.at(0).instructions.at(0).busy_ns == 5'000'000'000);
    CHECK(steps.at(0).instructions.at(1).busy_ns >= 0);
    CHECK(steps.at(0).instructions.at(1).busy_ns < 5'000'000'000);
  });
  CHECK(failure == "");
}

TEST_CASE("no more threads than permits are behind the gate") {
  CoreGate gate(2);
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const CoreGate::Hold core(gate);
        const int now = ++inside;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        --inside;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(most >= 1);
  CHECK(most <= 2);
}

}  // namespace simrun
