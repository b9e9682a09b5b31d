#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

// BERT large on 8 V100 and 8 P100, equal batches.
std::string mixed_job(const Scratch& scratch) {
  return scratch.write("mixed.yaml",
                       "simrun: 1\n"
                       "model: {from: bert-large}\n"
                       "training: {seq_length: 128, micro_batch_size: 16, global_batch_size: 256, precision: "
                       "fp32}\n"
                       "cluster: {from: whale_v100_p100}\n");
}

}  // namespace

TEST_CASE("--plan whale --json: balances that fit, the fastest first; the first is the job that is written") {
  const Scratch scratch;
  const std::string best = scratch.file("best.yaml");
  const Ran planned = run_simrun("--plan whale " + mixed_job(scratch) + " --json -o " + best);
  CAPTURE(planned.output);
  REQUIRE(planned.code == 0);
  const auto found = nlohmann::json::parse(planned.output);
  CHECK(found["candidates"] >= found["evaluated"]);
  CHECK(found["evaluated"] >= found["feasible"]);
  const auto jobs = found["best"];
  CHECK(found["feasible"] == jobs.size());
  REQUIRE(jobs.size() >= 2);
  bool has_written = false;
  for (const auto& job : jobs) {
    CHECK(job["step_time_s"] >= jobs[0]["step_time_s"]);
    CHECK(job["peak_memory_bytes"] <= job["memory_limit_bytes"]);
    has_written = has_written || job["candidate"] == "as written";
  }
  CHECK(has_written);
  CHECK(jobs[0]["candidate"] != "as written");
  CHECK(jobs[0]["config"] == read(best));
  const auto again = nlohmann::json::parse(run_simrun(best + " --json --no-html").output);
  CHECK(again["step_time_s"] == jobs[0]["step_time_s"]);
}

TEST_CASE("--plan whale --json where nothing fits has no best and exits with 3") {
  const Scratch scratch;
  const Ran planned =
      run_simrun("--plan whale " + mixed_job(scratch) +
                 " --set training.micro_batch_size=4096 --set training.global_batch_size=65536"
                 " --json -o " +
                 scratch.file("best.yaml"));
  CAPTURE(planned.output);
  CHECK(planned.code == 3);
  const auto found = nlohmann::json::parse(planned.output);
  CHECK(found["feasible"] == 0);
  CHECK(found["best"].empty());
}

TEST_CASE("no likely range is printed for GPUs of several kinds: no such run was measured") {
  const Scratch scratch;
  const std::string mixed = mixed_job(scratch), equal = " --set 'cluster={from: dgx1_v100, nodes: 2}'";
  for (const char* json : {"", " --json"}) {
    const Ran on_mixed = run_simrun(mixed + " --no-html" + json);
    CAPTURE(on_mixed.output);
    REQUIRE(on_mixed.code == 0);
    CHECK(on_mixed.output.find("likely") == std::string::npos);
    // On equal GPUs the same job has one.
    CHECK(run_simrun(mixed + equal + " --no-html" + json).output.find("likely") != std::string::npos);
  }
}

}  // namespace simrun
