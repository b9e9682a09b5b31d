#include <catch2/catch.hpp>
#include <string>

#include "example_run.h"
#include "visualizer/json.h"
#include "visualizer/terminal.h"

namespace simrun {

namespace {

ExampleRun uneven_run() {
  ExampleRun run = example_run();
  StageSummary& stage = run.summary.stages[2];
  stage.busiest = {17, 0.0402, 0, 0.0071};
  stage.idlest = {20, 0.0301, 0.0101, 0.0071};
  return run;
}

}  // namespace

TEST_CASE("the terminal names the GPUs of the most uneven pipeline rank, and none where all are alike") {
  ExampleRun run = uneven_run();
  CHECK(terminal_summary(run.plan, run.summary)
            .find("load imbalance: of pp 2, GPU 17 computes 40.20 ms, GPU 20 30.10 ms (mean 30.72 ms)\n") !=
        std::string::npos);
  run = example_run();
  CHECK(terminal_summary(run.plan, run.summary).find("load imbalance") == std::string::npos);
}

TEST_CASE("the JSON of an uneven pipeline rank has its busiest and its idlest GPU") {
  ExampleRun run = uneven_run();
  const std::string json = summary_json(run.plan, run.summary);
  CHECK(json.find(
            R"("busiest_gpu": {"gpu": 17, "compute_s": 0.0402, "bubble_s": 0, "exposed_comm_s": 0.0071}, )"
            R"("idlest_gpu": {"gpu": 20, "compute_s": 0.0301, "bubble_s": 0.0101)") != std::string::npos);
  CHECK(json.find("busiest_gpu") == json.rfind("busiest_gpu"));  // the other ranks are even
}

}  // namespace simrun
