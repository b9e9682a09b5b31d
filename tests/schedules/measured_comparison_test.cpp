#include "schedules/measured_comparison.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

// A forward GEMM and an all-reduce, a backward GEMM.
Plan three_instructions() {
  Instruction forward, exchange, backward;
  forward.opcode = backward.opcode = Opcode::gemm;
  exchange.opcode = Opcode::all_reduce;
  exchange.stream = 1;
  backward.phase = Phase::backward_input;
  Plan plan;
  plan.segments = {{"F", PassKind::forward, 0, {forward, exchange}},
                   {"B", PassKind::backward, 0, {backward}}};
  plan.programs = {{0, {{.segment = 0}, {.segment = 1}}, {{}}}};
  return plan;
}

// Durations in milliseconds.
Timeline timeline_of(Picoseconds forward, Picoseconds exchange, Picoseconds backward) {
  constexpr Picoseconds ms = 1'000'000'000;
  Timeline timeline;
  timeline.step = 10 * ms;
  RankTimeline rank;
  rank.lanes = {{0, {{0, forward * ms, 0, 0, 0}, {5 * ms, backward * ms, 0, 1, 0}}},
                {1, {{forward * ms, exchange * ms, 7 * ms, 0, 1}}}};
  timeline.ranks = {rank};
  return timeline;
}

}  // namespace

TEST_CASE("predicted and measured seconds are summed by opcode and by phase, waits left out") {
  const MeasuredComparison comparison =
      compare_measured(three_instructions(), timeline_of(2, 1, 3), timeline_of(4, 2, 1));
  CHECK(comparison.step.predicted_s == Approx(0.01));
  CHECK(comparison.step.instructions == 3);
  REQUIRE(comparison.by_kind.size() == 2);
  const ComparedTime &gemm = comparison.by_kind[0], &exchange = comparison.by_kind[1];
  CHECK(gemm.name == "gemm");
  CHECK(gemm.predicted_s == Approx(0.005));  // 2 + 3 ms
  CHECK(gemm.measured_s == Approx(0.005));   // 4 + 1 ms
  CHECK(gemm.error() == Approx(0).margin(1e-12));
  CHECK(gemm.instructions == 2);
  CHECK(exchange.name == "all_reduce");
  CHECK(exchange.error() == Approx(-0.5));  // 1 of 2 ms
  REQUIRE(comparison.by_phase.size() == 2);
  CHECK(comparison.by_phase[0].name == "forward");
  CHECK(comparison.by_phase[0].error() == Approx(-0.5));  // 3 of 6 ms
  CHECK(comparison.by_phase[1].name == "backward_input");
  CHECK(comparison.by_phase[1].error() == Approx(2));  // 3 of 1 ms
}

}  // namespace simrun
