#include "cli/execution_report.h"

#include <catch2/catch.hpp>

namespace simrun {

TEST_CASE("a step says where it was measured, and where no clock ran that the whole run is in it") {
  ExecutionReport report;
  report.predicted_step_s = 0.003;
  report.measured_step_s = 0.25;
  CHECK_THAT(
      execution_text(report),
      Catch::Contains("250.0 ms measured here with the initial values and all files, 3.000 ms predicted"));
  report.measured = Timeline{};
  report.cores = 2;
  CHECK_THAT(execution_text(report), Catch::Contains("250.0 ms measured here on 2 cores,"));
  report.cores = 1;
  report.unit = "GPU";
  CHECK_THAT(execution_text(report), Catch::Contains("250.0 ms measured here on 1 GPU,"));
}

}  // namespace simrun
