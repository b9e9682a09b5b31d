#include "visualizer/imperfection_table.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

TEST_CASE("imperfection table: what each adds, alone and together, in time and in % of the step without") {
  // 2 s + 0.1 + 0.5 - 0.05 = 2.55 s.
  const ImperfectionCosts costs{
      2,
      {{"jitter", "lognormal, 2 % of a kernel's time", 0.1}, {"stragglers.hot", "node1.gpu2 x 1.25", 0.5}},
      -0.05};
  CHECK(imperfection_table(costs, 2.55) ==
        "imperfections                                           step\n"
        "without any                                          2.000 s\n"
        "jitter          lognormal, 2 % of a kernel's time  +100.0 ms   +5.00 %\n"
        "stragglers.hot  node1.gpu2 x 1.25                  +500.0 ms  +25.00 %\n"
        "interaction     together less each alone           -50.00 ms   -2.50 %\n"
        "all                                                +550.0 ms  +27.50 %\n");
  CHECK(imperfection_json(costs) ==
        "{\n    \"step_time_without_s\": 2,\n    \"causes\": [\n"
        "      {\"cause\": \"jitter\", \"what\": \"lognormal, 2 % of a kernel's time\", \"added_s\": 0.1},\n"
        "      {\"cause\": \"stragglers.hot\", \"what\": \"node1.gpu2 x 1.25\", \"added_s\": 0.5}\n    ],\n"
        "    \"interaction_s\": -0.05\n  }");
}

}  // namespace
}  // namespace simrun
