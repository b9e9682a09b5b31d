#include "backend/calibration.h"

#include <catch2/catch.hpp>
#include <set>

namespace simrun {

TEST_CASE("the experiments on kernels run on one rank, and each names what it measures") {
  const CalibrationPlan of = kernel_experiments();
  const Execution run =
      execute(of.plan, {.device = ExecutionDevice::null, .training = {}, .compares = false});
  CHECK(run.failure == "");
  std::set<std::string> names;
  for (const Experiment& experiment : of.experiments) names.insert(experiment.what);
  CHECK(names == std::set<std::string>{"overhead", "product", "attention", "attention_backward"});
  CHECK(of.experiments.size() == 16 + 3 * 64 + 2 * 9);
}

TEST_CASE("the experiments on exchanges run on any number of ranks, and give a time per repetition") {
  const std::int64_t ranks = GENERATE(2, 3, 4, 8);
  CAPTURE(ranks);
  const CalibrationPlan of = exchange_experiments(ranks);
  const std::vector<ExperimentSeconds> seconds = run_experiments(of, ExecutionDevice::null, 2);
  REQUIRE(seconds.size() == of.experiments.size());
  for (const ExperimentSeconds& own : seconds) {
    CHECK(own.work.size() == 2);
    CHECK(own.wall.size() == 2);
  }
  std::set<std::string> names;
  for (const Experiment& experiment : of.experiments) names.insert(experiment.what);
  std::set<std::string> all{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"};
  if (ranks == 3) all.erase("all_to_all");  // 64 columns do not split
  CHECK(names == all);
}

TEST_CASE("the experiments on exchanges run on the CPU") {
  const CalibrationPlan of = exchange_experiments(2);
  CHECK(run_experiments(of, ExecutionDevice::cpu_f32, 1).front().work.size() == 1);
}

}  // namespace simrun
