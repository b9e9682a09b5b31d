#include <catch2/catch.hpp>
#include <string>

#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string eight_ranks = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-gpt-8ranks.yaml";

}  // namespace

TEST_CASE("--plan galvatron prints a strategy for every layer and writes a job that runs") {
  const Scratch scratch;
  const std::string best = scratch.file("best.yaml");
  const Ran planned = run_simrun("--plan galvatron " + eight_ranks + " -o " + best);
  CAPTURE(planned.output);
  REQUIRE(planned.code == 0);
  for (const char* words : {"simulated ", "layers 0-3: ", "embedding and loss: ", "that were simulated"})
    CHECK(planned.output.find(words) != std::string::npos);
  const Ran checked = run_simrun(best + " --check");
  CAPTURE(checked.output);
  CHECK(checked.code == 0);
  const Ran executed = run_simrun(best + " --execute --no-html");
  CAPTURE(executed.output);
  CHECK(executed.code == 0);
}

TEST_CASE("--json of --plan galvatron and --plan alpa has the keys that --plan has", "[long]") {
  const Scratch scratch;
  for (const char* planner : {"galvatron", "alpa"}) {
    const Ran planned = run_simrun("--plan " + std::string(planner) + " " + eight_ranks + " --json -o " +
                                   scratch.file("best.yaml"));
    CAPTURE(planner, planned.output);
    REQUIRE(planned.code == 0);
    for (const char* key : {"\"candidates\": ", "\"feasible\": ", "\"evaluated\": ", "\"seconds\": ",
                            "\"best\": [", "\"config\": \"", "\"step_time_s\": ", "\"peak_memory_bytes\": "})
      CHECK(planned.output.find(key) != std::string::npos);
  }
}

TEST_CASE("a planner's name that is misspelt is no file for the Plan") {
  const Ran ran = run_simrun("--plan galvatrom " + eight_ranks);
  CHECK(ran.code == 2);
  CHECK(ran.output.find("--plan galvatrom: did you mean 'galvatron'?") != std::string::npos);
}

TEST_CASE("--plan galvatron says what it does not search, and when nothing fits") {
  const Scratch scratch;
  const Ran frozen = run_simrun("--plan galvatron " + eight_ranks + " --set model.frozen='[embedding]'");
  CAPTURE(frozen.output);
  CHECK(frozen.code == 2);
  CHECK(frozen.output.find("frozen parameters are not searched") != std::string::npos);
  const Ran small = run_simrun("--plan galvatron " + eight_ranks + " --set plan.max_memory='1 KiB' -o " +
                               scratch.file("best.yaml"));
  CAPTURE(small.output);
  CHECK(small.code == 3);
  CHECK(small.output.find("no plan fits") != std::string::npos);
}

}  // namespace simrun
