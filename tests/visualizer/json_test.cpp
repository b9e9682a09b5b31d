#include "visualizer/json.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "example_run.h"
#include "visualizer/terminal.h"

namespace simrun {

namespace {

// What stands behind "key": up to the end of its line or the next comma.
std::string value_of(const std::string& json, const std::string& key) {
  const std::string::size_type at = json.find("\"" + key + "\": ");
  if (at == std::string::npos) return "missing";
  const std::string::size_type from = at + key.size() + 4;
  return json.substr(from, json.find_first_of(",\n", from) - from);
}

}  // namespace

TEST_CASE("the JSON summary has every promised key") {
  const ExampleRun run = example_run();
  const std::string json = summary_json(run.plan, run.summary);
  for (const char* key : {"schema_version",
                          "step_time_s",
                          "first_step_s",
                          "tokens_per_s",
                          "tokens_per_s_per_gpu",
                          "model_flops_per_step",
                          "hardware_flops_per_step",
                          "model_tflops_per_gpu",
                          "hardware_tflops_per_gpu",
                          "mfu",
                          "hfu",
                          "compute_s",
                          "bubble_s",
                          "bubble_fraction",
                          "exposed_comm_s",
                          "hidden_comm_s",
                          "parameters",
                          "peak_memory_bytes",
                          "fits",
                          "stages",
                          "engine",
                          "ranks",
                          "config_sha256",
                          "pp_rank",
                          "layers",
                          "memory",
                          "weights",
                          "gradients",
                          "optimizer",
                          "activations",
                          "comm",
                          "workspace",
                          "warm_up",
                          "imbalance",
                          "drain",
                          "p2p"}) {
    CAPTURE(key);
    CHECK(json.find("\"" + std::string(key) + "\": ") != std::string::npos);
  }
  CHECK(value_of(json, "schema_version") == "1");
  CHECK(value_of(json, "fits") == "true");
  CHECK(value_of(json, "engine") == "\"example\"");
  CHECK(value_of(json, "config_sha256") == "\"0123abcd\"");
}

TEST_CASE("the JSON summary of a model that reads images counts images, not tokens") {
  ExampleRun run = example_run();
  CHECK(summary_json(run.plan, run.summary).find("images") == std::string::npos);
  run.summary.counts_images = true;
  run.summary.tokens_per_s = 960;
  run.summary.tokens_per_s_per_gpu = 30;
  const std::string json = summary_json(run.plan, run.summary);
  CHECK(value_of(json, "images_per_s") == "960");
  CHECK(value_of(json, "images_per_s_per_gpu") == "30");
  CHECK(json.find("tokens") == std::string::npos);
  CHECK(terminal_summary(run.plan, run.summary, {}).find("   960 images/s   MFU") != std::string::npos);
}

TEST_CASE("the JSON summary names layers of multi-token prediction where there are some") {
  ExampleRun run = example_run();
  CHECK(value_of(summary_json(run.plan, run.summary), "mtp_layers") == "missing");
  run.summary.stages.back().mtp_layers = 1;
  CHECK(value_of(summary_json(run.plan, run.summary), "mtp_layers") == "1");
}

TEST_CASE("the JSON summary says why its engine ran and lists all links, most used first") {
  ExampleRun run = example_run({.links = true});
  run.summary.engine_reason = "no link is shared";
  run.summary.contention_bound = 0.25;
  const std::string json = summary_json(run.plan, run.summary);
  CHECK(value_of(json, "engine_reason") == "\"no link is shared\"");
  CHECK(value_of(json, "contention_bound") == "0.25");
  run.summary.links = {{"node0.nic0.tx", 4, 50e9, 123, 0.5, 0.125, 0.75}, {"a\"b", 1, 1e9, 1, 0, 0, 0}};
  const std::string two = summary_json(run.plan, run.summary);
  CHECK(two.find(R"("links": [
    {"name": "node0.nic0.tx", "multiplicity": 4, "bandwidth": 50000000000, "bytes": 123, "busy_fraction": 0.5, "contended_s": 0.125},
    {"name": "a\"b", "multiplicity": 1, "bandwidth": 1000000000, "bytes": 1, "busy_fraction": 0, "contended_s": 0}
  ])") != std::string::npos);
  CHECK(summary_json(run.plan, example_run().summary).find("\"links\": []") != std::string::npos);
}

TEST_CASE("numbers of the JSON summary read back to the same double") {
  ExampleRun run = example_run();
  const double third = GENERATE(1.0 / 3, 0.1, 14.934, 1e-12, 123456789.125, 1e300);
  run.summary.step_time_s = third;
  CHECK(std::stod(value_of(summary_json(run.plan, run.summary), "step_time_s")) == third);
}

TEST_CASE("what is not a number is null in JSON") {
  ExampleRun run = example_run();
  run.summary.mfu = std::numeric_limits<double>::quiet_NaN();
  run.summary.hfu = std::numeric_limits<double>::infinity();
  const std::string json = summary_json(run.plan, run.summary);
  CHECK(value_of(json, "mfu") == "null");
  CHECK(value_of(json, "hfu") == "null");
}

TEST_CASE("JSON strings escape quotes, controls, '<' and broken UTF-8") {
  CHECK(json_quoted("plain") == R"("plain")");
  CHECK(json_quoted("a\"b\\c") == R"("a\"b\\c")");
  CHECK(json_quoted("line\nend\x01") == R"("line\u000aend\u0001")");
  CHECK(json_quoted("</script>") == R"("\u003c/script>")");
  CHECK(json_quoted("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  CHECK(json_quoted("\xff") == "\"\xef\xbf\xbd\"");
  CHECK(json_quoted("cut \xe2\x82") == "\"cut \xef\xbf\xbd\xef\xbf\xbd\"");
  CHECK(json_quoted("\xed\xa0\x80") == "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");  // a surrogate
}

TEST_CASE("the JSON summary of one run is always the same bytes") {
  CHECK(summary_json(example_run().plan, example_run().summary) ==
        summary_json(example_run().plan, example_run().summary));
}

}  // namespace simrun
