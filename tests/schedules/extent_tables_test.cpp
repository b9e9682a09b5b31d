#include "schedules/extent_tables.h"

#include <catch2/catch.hpp>

#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "two_stage_plan.h"

namespace simrun {
namespace {

// Eight GPUs as tp 2 x cp 4, tp fastest: GPU i has tp = i % 2, cp = i / 2.
Plan eight_gpus() {
  Plan plan;
  plan.stages = {{{{0, 8}}, {{"dense", {{"tp", 2}, {"cp", 4}}}}}};
  return plan;
}

ExtentTable table(std::vector<std::uint8_t> axes, std::vector<std::int64_t> values,
                  bool per_microbatch = false) {
  return {ExtentSource::coordinates, 0, std::move(axes), std::move(values), "", per_microbatch};
}

std::string sentences(const Plan& plan) {
  std::string all;
  for (const std::string& finding : lint(plan)) all += finding + "\n";
  return all;
}

// The two stages' rank 0 reads `a` of 8 rows: 8 on one tensor-parallel rank and 2 on the other.
Plan uneven_rows() {
  Plan plan = two_stage_plan();
  plan.extent_tables = {table({0}, {8, 2})};
  plan.buffers[input_a].dims[0].table = 0;
  return plan;
}

}  // namespace

TEST_CASE("a table's last axis varies fastest, whatever the order of the mesh") {
  const Plan plan = eight_gpus();
  const ExtentTable by_cp = table({1}, {10, 11, 12, 13});
  const ExtentTable tp_then_cp = table({0, 1}, {0, 1, 2, 3, 10, 11, 12, 13});
  const ExtentTable cp_then_tp = table({1, 0}, {0, 10, 1, 11, 2, 12, 3, 13});
  for (std::int64_t gpu = 0; gpu < 8; ++gpu) {
    CHECK(table_value(plan, by_cp, {0, gpu, 5}) == 10 + gpu / 2);
    CHECK(table_value(plan, tp_then_cp, {0, gpu, 0}) == 10 * (gpu % 2) + gpu / 2);
    CHECK(table_value(plan, cp_then_tp, {0, gpu, 0}) == 10 * (gpu % 2) + gpu / 2);
  }
}

TEST_CASE("a table per microbatch repeats after its last row") {
  const Plan plan = eight_gpus();
  const ExtentTable by_tp = table({0}, {1, 2, 3, 4, 5, 6}, true);  // 3 microbatches x 2 ranks
  CHECK(table_rows(plan, by_tp, 0) == 3);
  CHECK(table_value(plan, by_tp, {0, 0, 1}) == 3);
  CHECK(table_value(plan, by_tp, {0, 7, 2}) == 6);
  CHECK(table_value(plan, by_tp, {0, 7, 4}) == 4);  // microbatch 4 is row 1
  const ExtentTable for_all = table({}, {7, 8}, true);
  CHECK(table_value(plan, for_all, {0, 3, 3}) == 8);
}

TEST_CASE("GPUs are classed by what they find in the tables in use") {
  Plan plan = eight_gpus();
  plan.buffers.resize(1);
  plan.buffers[0].dims = {{0, -1, 20}};
  Instruction reads;
  reads.inputs = {0};
  plan.segments = {{"s", PassKind::forward, 0, {reads}}};
  plan.programs = {{0, {{0, 0, 1, Steps::every, 0}}, {{}}}};
  CHECK(table_classes(plan, plan.programs[0]).first_gpu == std::vector<std::int64_t>{0});
  plan.extent_tables = {table({1}, {10, 11, 12, 13}), table({0}, {3, 4})};
  CHECK(table_classes(plan, plan.programs[0]).first_gpu.size() == 1);  // nobody looks them up
  plan.buffers[0].dims[0].table = 0;
  CHECK(table_classes(plan, plan.programs[0]).first_gpu == std::vector<std::int64_t>{0, 2, 4, 6});
  CHECK(table_classes(plan, plan.programs[0]).of_gpu == std::vector<Index>{0, 0, 1, 1, 2, 2, 3, 3});
  plan.segments[0].instructions[0].work_table = 1;
  CHECK(table_classes(plan, plan.programs[0]).first_gpu.size() == 8);
  plan.extent_tables = {table({1}, {10, 11, 11, 10}), table({0}, {4, 4})};
  CHECK(table_classes(plan, plan.programs[0]).of_gpu == std::vector<Index>{0, 0, 1, 1, 1, 1, 0, 0});
}

TEST_CASE("microbatches are alike for a segment whose tables have equal rows for them") {
  Plan plan = eight_gpus();
  Instruction works;
  works.work_table = 0;
  plan.segments = {{"s", PassKind::forward, 0, {works}}, {"t", PassKind::forward, 0, {Instruction{}}}};
  plan.programs = {{0, {}, {}}};
  for (std::int32_t m = 0; m < 4; ++m) {
    plan.programs[0].entries.push_back({m == 3 ? Index{1} : Index{0}, static_cast<Index>(m)});
    plan.programs[0].bindings.push_back({.microbatch = m});
  }
  plan.extent_tables = {table({}, {5, 6}, true)};
  const MicrobatchRows rows(plan, plan.programs[0]);
  CHECK(rows.of(plan.programs[0].entries[0]) == rows.of(plan.programs[0].entries[2]));
  CHECK(rows.of(plan.programs[0].entries[0]) != rows.of(plan.programs[0].entries[1]));
  CHECK(rows.of(plan.programs[0].entries[3]).empty());
}

TEST_CASE("lint: a table has a value for every coordinate and microbatch, and none beyond the bound") {
  CHECK(sentences(uneven_rows()).empty());
  const auto says = [](const std::string& part, auto change) {
    Plan plan = uneven_rows();
    change(plan);
    INFO("expected: " << part << "\nfound:\n" << sentences(plan));
    CHECK(sentences(plan).find(part) != std::string::npos);
  };
  says("extent table 0 has 1 values for 2 coordinates of pipeline rank 0",
       [](Plan& plan) { plan.extent_tables[0].values.pop_back(); });
  says("extent table 0 has 4 values for 2 coordinates", [](Plan& plan) {
    plan.extent_tables[0].values = {8, 2, 8, 2};
  });
  says("extent table 0 has 3 values for 2 coordinates", [](Plan& plan) {
    plan.extent_tables[0] = table({0}, {1, 2, 3}, true);
  });
  says("names a mesh or an axis that pipeline rank 0 does not have",
       [](Plan& plan) { plan.extent_tables[0].axes = {1}; });
  says("names a mesh or an axis that pipeline rank 0 does not have", [](Plan& plan) {
    plan.extent_tables[0].axes = {0, 0};
  });
  says("extent table 0 has the value -1", [](Plan& plan) { plan.extent_tables[0].values[1] = -1; });
  says("extent table 0 has no values", [](Plan& plan) { plan.extent_tables[0].values.clear(); });
  says("buffer 'a' has an extent of 9 in extent table 0, beyond its bound 8",
       [](Plan& plan) { plan.extent_tables[0].values[1] = 9; });
  says("takes its work from extent table 1 of 1",
       [](Plan& plan) { plan.segments[forward_0].instructions[1].work_table = 1; });
  Plan rows = uneven_rows();
  rows.extent_tables[0] = table({0}, {8, 2, 0, 8}, true);
  rows.segments[forward_1].instructions[0].work_table = 0;
  CHECK(sentences(rows).empty());
  rows.extent_tables[0] = table({0}, {});
  rows.extent_tables[0].source = ExtentSource::run_time;  // the bound counts, but shares must be known
  CHECK(sentences(rows).find("takes its work from extent table 0, which has no values") != std::string::npos);
}

TEST_CASE("a plan with tables reads back from its file as it was") {
  Plan plan = uneven_rows();
  plan.extent_tables.push_back(table({0}, {1'000'000, 0, 250'000, 1'750'000}, true));
  plan.segments[forward_0].instructions[1].work_table = 1;
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
}

TEST_CASE("FLOPs count tables with their means over coordinates and microbatches") {
  Plan plan = two_stage_plan();
  const Instruction& product = plan.segments[forward_0].instructions[1];
  CHECK(instruction_flops(plan, product) == 2 * 8 * 4 * 4);
  const double whole = hardware_flops(plan);
  plan = uneven_rows();
  plan.buffers[output_y].dims[0].table = 0;
  CHECK(instruction_flops(plan, plan.segments[forward_0].instructions[1]) == 2 * 5 * 4 * 4);  // (8 + 2) / 2
  // Forward and weight gradient of rank 0: 3 microbatches x 2 GPUs x 2 products x 3 of 8 rows less.
  CHECK(hardware_flops(plan) == whole - 3 * 2 * 2 * (2 * 3 * 4 * 4));
  plan = two_stage_plan();
  plan.extent_tables.push_back(table({0}, {500'000, 0, 1'000'000, 1'500'000}, true));
  plan.segments[forward_0].instructions[1].work_table = 1;
  CHECK(instruction_flops(plan, plan.segments[forward_0].instructions[1]) == 0.75 * 2 * 8 * 4 * 4);
}

}  // namespace simrun
