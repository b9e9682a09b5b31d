#include "visualizer/roofline.h"

#include <catch2/catch.hpp>

#include "example_run.h"

namespace simrun {

TEST_CASE("roofline: an operator's time, FLOPs and bytes are those of all its kernels on the rank") {
  const ExampleRun run = example_run({.microbatches = 8});
  const RankTimeline& rank = run.timeline.ranks[0];
  const std::vector<OperatorWork> operators = operator_work(run.plan, rank);
  REQUIRE(!operators.empty());
  double seconds = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    seconds += operators[i].seconds;
    count += operators[i].count;
    if (i > 0) CHECK(operators[i - 1].seconds >= operators[i].seconds);
  }
  Picoseconds lane_time = 0;
  std::size_t kernels = 0;
  for (const Lane& lane : rank.lanes)
    if (lane.stream == compute_stream)
      for (const Interval& interval : lane.intervals) {
        lane_time += interval.duration;
        kernels += interval.duration > 0;
      }
  CHECK(seconds == Approx(static_cast<double>(lane_time) * 1e-12));
  CHECK(count == static_cast<std::int64_t>(kernels));
}

TEST_CASE("roofline: a product of [M,K] and [K,N] has 2 M K N FLOPs, and its three matrices for bytes") {
  Plan plan;
  plan.dimension_names = {"m", "k", "n"};
  const auto matrix = [&](std::uint16_t rows, std::int64_t r, std::uint16_t columns, std::int64_t c) {
    Buffer buffer;
    buffer.dims = {{.name = rows, .extent = r}, {.name = columns, .extent = c}};
    plan.buffers.push_back(buffer);  // bf16
  };
  matrix(0, 10, 1, 20);
  matrix(1, 20, 2, 30);
  matrix(0, 10, 2, 30);
  Instruction gemm;
  gemm.opcode = Opcode::gemm;
  gemm.label = "fc1";
  gemm.inputs = {0, 1};
  gemm.outputs = {2};
  Segment segment;
  segment.instructions = {gemm};
  plan.segments = {segment};
  plan.programs = {{.pipeline_rank = 0, .entries = {{}, {}}, .bindings = {}}};
  RankTimeline rank;
  rank.lanes = {{compute_stream, {{0, 100, 0, 0, 0}, {100, 300, 0, 1, 0}}}};
  const std::vector<OperatorWork> operators = operator_work(plan, rank);
  REQUIRE(operators.size() == 1);
  CHECK(operators[0].name == "fc1 gemm");
  CHECK(operators[0].count == 2);
  CHECK(operators[0].seconds == Approx(400e-12));
  CHECK(operators[0].flops == 2 * 2 * 10 * 20 * 30);
  CHECK(operators[0].bytes == 2 * 2 * (200 + 600 + 300));
}

TEST_CASE("roofline: without recorded instructions there is none") {
  const ExampleRun run = example_run();
  RankTimeline rank = run.timeline.ranks[0];
  rank.lanes.clear();
  CHECK(roofline_html(run.plan, rank).empty());
}

}  // namespace simrun
