#include <catch2/catch.hpp>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string shipped = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-moe-8ranks.yaml";

ConfigNode experts_run(const std::string& arguments) {
  const Ran ran = run_simrun(shipped + " " + arguments + " --execute --dtype f64 --json");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  return member(parsed_json(ran.output), "execute");
}

std::vector<std::string> numbers_of(const ConfigNode& node) {
  std::vector<std::string> all;
  for (const ConfigNode& item : node.children) all.push_back(item.text);
  return all;
}

}  // namespace

TEST_CASE("--execute: experts on four ranks are those on one, and memory is that of the rows they had",
          "[long]") {
  for (const char* arguments :
       {"", "--set moe.token_dispatcher=allgather", "--set moe.token_dispatcher=deepep",
        "--set moe.capacity_factor=1", "--set moe.token_dispatcher=einsum --set moe.capacity_factor=1"}) {
    CAPTURE(arguments);
    const ConfigNode run = experts_run(arguments);
    for (const char* error : {"max_loss_error", "max_gradient_error", "max_parameter_error"})
      CHECK(number(run, error) <= 1e-10);
    CHECK(numbers_of(member(run, "predicted_peak_bytes")) == numbers_of(member(run, "allocated_peak_bytes")));
  }
}

}  // namespace simrun
