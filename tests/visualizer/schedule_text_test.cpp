#include "visualizer/schedule_text.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/dualpipe.h"
#include "schedules/gpipe.h"
#include "schedules/zb_v.h"
#include "tests/visualizer/schedule_run.h"

namespace simrun {
namespace {

TEST_CASE("schedule text: numbers of ticks as exact decimals") {
  CHECK(units_text(0) == "0");
  CHECK(units_text(18'500'000) == "18.5");
  CHECK(units_text(1) == "0.000001");
  CHECK(units_text(30'000'000) == "30");
}

TEST_CASE("schedule text: 1F1B on the axis of time, a cell per unit, idle cells dotted, then the figures") {
  CHECK(schedule_text(evaluated_1f1b(2, 2), {}) ==
        "1f1b  2 ranks  2 microbatches  F 1  B 2\n"
        "F forward  B backward\n"
        "\n"
        "rank 0 F0 F1 .  .  B0--- .  B1---\n"
        "rank 1 .  F0 B0--- F1 B1--- .  .\n"
        "\n"
        "makespan 9   bubble 33.3 %   parameter copies 1   peak 2 activations of a stage\n"
        "rank  sync idle  span idle  peak in flight (to W)  peak in flight (to I)\n"
        "   0          3          3                      2                      2\n"
        "   1          3          0                      1                      1\n");
}

TEST_CASE("schedule text: colours are the page's, idle time is bare ground") {
  const std::string text = schedule_grid_text(evaluated_1f1b(2, 1), {.color = true});
  CHECK(text ==
        "rank 0 \x1b[48;5;25;38;5;231mF0 \x1b[0m         \x1b[48;5;214;38;5;16mB0    \x1b[0m\n"
        "rank 1    \x1b[48;5;25;38;5;231mF0 \x1b[0m\x1b[48;5;214;38;5;16mB0    \x1b[0m      \n");
}

TEST_CASE("schedule text: several stages of a rank, directions and overlapped pairs can be told apart") {
  const auto v = evaluated_schedule("zb_v", Placement::wave,
                                    {.ranks = 1, .virtual_stages = 2, .microbatches = 1}, zb_v(1, 1));
  CHECK(schedule_grid_text(v, {}) == "rank 0 F0a F0b I0b W0b I0a W0a\n");
  const auto both = evaluated_schedule("dualpipe", Placement::bidirectional, {.ranks = 2, .microbatches = 4},
                                       dualpipe(2, 4));
  const std::string text = schedule_grid_text(both, {});
  CAPTURE(text);
  CHECK(text.find("F0v F0^") != std::string::npos);
  CHECK(text.find("+B0v----") != std::string::npos);
}

TEST_CASE(
    "schedule text: a grid wider than the terminal is folded into equal parts, a very long one is cut") {
  const std::string folded = schedule_grid_text(evaluated_1f1b(2, 16), {.width = 80});  // 51 cells of 4
  CHECK(folded.starts_with("t = 0\nrank 0 F0  F1  "));
  CHECK(folded.find("\nt = 17\n") != std::string::npos);
  CHECK(folded.find("\nt = 34\n") != std::string::npos);
  CHECK(std::ranges::count(folded, '\n') == 3 * 3 + 2);
  const std::string cut = schedule_grid_text(evaluated_1f1b(8, 4000), {});
  CHECK(cut.size() < 40'000);
  CHECK(cut.find("of 12021: --dry lists every op, the page draws them\n") != std::string::npos);
}

TEST_CASE("schedule text: passes of awkward lengths get whole cells, the shortest one") {
  PipelineShape shape = {.ranks = 1, .microbatches = 1};
  shape.times.forward = 1;
  shape.times.backward = 3;
  EvaluatedSchedule odd = evaluated_schedule("1f1b", Placement::loop, shape, one_f_one_b(1, 1));
  odd.shape.times.forward = 1'000'001;
  odd.times = evaluate(odd.schedule, odd.shape);
  CHECK(schedule_grid_text(odd, {}) == "rank 0 F0 B0------\n");
}

TEST_CASE("schedule text: passes that take no time cannot be drawn") {
  PipelineShape shape = {.ranks = 2, .microbatches = 2};
  shape.times = {0, 0, 0, 0, 0, 0};
  const EvaluatedSchedule nothing = evaluated_schedule("1f1b", Placement::loop, shape, one_f_one_b(2, 2));
  CHECK(schedule_grid_text(nothing, {}) == "no pass takes time: --dry lists every op\n");
}

TEST_CASE("schedule text: the table of all has a row for each, the memory limit marked, refusals behind") {
  EvaluatedSchedule gpipe_run =
      evaluated_schedule("gpipe", Placement::loop, {.ranks = 2, .microbatches = 4}, gpipe(2, 4));
  gpipe_run.shape.memory_limit = 2;
  const std::string table =
      schedules_table({evaluated_1f1b(2, 4), gpipe_run}, {{"zb_v", "needs 2 stages per rank, not 1"}});
  CHECK(table.starts_with(
      "schedule  stages/rank  bubble  makespan  sync idle  span idle  peak  of a rank  copies  transfers\n"
      "1f1b                1  20.0 %        15          3          3     2       2.00       1          2\n"
      "gpipe               1  20.0 %        15          3          3     4       4.00       1          2  "
      "above the limit of 2\n"));
  CHECK(table.ends_with("refused: zb_v: needs 2 stages per rank, not 1\n"));
}

}  // namespace
}  // namespace simrun
