#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "planner/search.h"

namespace simrun {
namespace {

double best_step_s(const std::string& max_memory, const std::string& schedules = "") {
  LoadOptions load;
  load.overrides = {{"plan.max_memory", max_memory}};
  if (!schedules.empty()) {
    load.overrides.push_back({"plan.fix.pipeline_schedule", schedules});
    load.overrides.push_back({"plan.fix.tensor_model_parallel_size", "1"});
    load.overrides.push_back({"plan.fix.pipeline_model_parallel_size", "4"});
    load.overrides.push_back({"plan.fix.recompute", "none"});
  }
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const PlanSearchResult found = search_jobs(
      plan_base("simrun: 1\n"
                "model: {from: llama3-8b}\n"
                "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 64, precision: bf16}\n"
                "cluster: {from: dgx_h100, nodes: 2}\n",
                "test.yaml", load),
      {});
  REQUIRE_FALSE(found.best.empty());
  return found.best.front().evaluation.step_s;
}

}  // namespace

// The last stage has a head as large as four layers: no split is good until its layers lie well.
TEST_CASE("under one schedule more memory makes no plan slower", "[long]") {
  CHECK(best_step_s("60 GiB", "dualpipe_v") <= best_step_s("28 GiB", "dualpipe_v"));
}

// Under 14 GiB DualPipeV on 4 x 4 ranks takes 1.40 s, the best of 1F1B 1.61 s.
TEST_CASE("under tight limits the schedule that holds least is tried on every split", "[long]") {
  CHECK(best_step_s("14 GiB") < 1.45);
}

}  // namespace simrun
