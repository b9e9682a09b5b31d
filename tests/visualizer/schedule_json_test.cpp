#include "visualizer/schedule_json.h"

#include <catch2/catch.hpp>

#include "schedules/dualpipe.h"
#include "tests/visualizer/schedule_run.h"
#include "visualizer/schedule_page.h"

namespace simrun {
namespace {

TEST_CASE("schedule JSON: exactly the promised names, times in units of the costs") {
  EvaluatedSchedule schedule = evaluated_1f1b(2, 2);
  schedule.shape.times.communication = ticks_per_unit / 2;
  schedule.times = evaluate(schedule.schedule, schedule.shape);
  CHECK(schedule_json(schedule) ==
        R"({
  "schedule": "1f1b",
  "ranks": 2,
  "microbatches": 2,
  "virtual": 1,
  "makespan": 10,
  "idle": [4, 4],
  "span_idle": [4, 0],
  "bubble_ratio": 0.4,
  "peak_inflight_at_w": [2, 1],
  "peak_inflight_at_i": [2, 1],
  "parameter_copies": 1,
  "ops": [
    ["0F0", "0F1", "0B0", "0B1"],
    ["1F0", "1B0", "1F1", "1B1"]
  ]
}
)");
}

TEST_CASE("schedule JSON: all schedules are one object, those refused with the rule") {
  CHECK(schedules_json({}, {}) == "{\n  \"schedules\": [],\n  \"refused\": []\n}\n");
  const std::string json = schedules_json({evaluated_1f1b(1, 1)}, {{"chimera", "no \"odd\" ranks"}});
  CHECK(json ==
        R"({
  "schedules": [
    {
      "schedule": "1f1b",
      "ranks": 1,
      "microbatches": 1,
      "virtual": 1,
      "makespan": 3,
      "idle": [0],
      "span_idle": [0],
      "bubble_ratio": 0,
      "peak_inflight_at_w": [1],
      "peak_inflight_at_i": [1],
      "parameter_copies": 1,
      "ops": [
        ["0F0", "0B0"]
      ]
    }
  ],
  "refused": [
    {"schedule": "chimera", "why": "no \"odd\" ranks"}
  ]
}
)");
}

TEST_CASE("schedule JSON: an overlapped pair is one string, a bidirectional schedule holds two copies") {
  const EvaluatedSchedule schedule = evaluated_schedule("dualpipe", Placement::bidirectional,
                                                        {.ranks = 2, .microbatches = 4}, dualpipe(2, 4));
  const std::string json = schedule_json(schedule);
  CAPTURE(json);
  CHECK(json.find("\"(1F1;0B0)\"") != std::string::npos);
  CHECK(json.find("\"parameter_copies\": 2") != std::string::npos);
}

TEST_CASE("schedule page: the passes are drawn, the figures are those of the text; equal runs, equal bytes") {
  const EvaluatedSchedule schedule = evaluated_1f1b(2, 2);
  REQUIRE(page_refusal(schedule).empty());
  const std::string page = schedule_page(schedule);
  CHECK(page == schedule_page(schedule));
  CHECK(page.find("<dt>makespan</dt><dd>9</dd>") != std::string::npos);
  CHECK(page.find("<dt>bubble</dt><dd>33.3 %</dd>") != std::string::npos);
  CHECK(page.find("1 ms is one unit of the costs") != std::string::npos);
  CHECK(page.find("\"step\":9000000000,") != std::string::npos);  // 9 ms in picoseconds
  CHECK(page.find("Does not fit") == std::string::npos);
}

TEST_CASE("schedule page: too many passes or too long a time are refused") {
  CHECK(page_refusal(evaluated_1f1b(64, 4096)) ==
        "524288 passes are more than the 400000 that a page can show");
  EvaluatedSchedule schedule = evaluated_1f1b(2, 2);
  schedule.times.makespan = std::int64_t{1} << 50;
  CHECK(page_refusal(schedule).empty());
  CHECK(schedule_page(schedule).find("1 us is one unit of the costs") != std::string::npos);
  schedule.times.makespan = std::int64_t{1} << 53;
  CHECK(page_refusal(schedule) == "the costs are too large for a page");
}

}  // namespace
}  // namespace simrun
