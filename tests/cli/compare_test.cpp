#include <catch2/catch.hpp>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

TEST_CASE("program: a job compared with itself differs in nothing") {
  const ConfigNode json = parsed_json(run_simrun(tiny + " " + tiny + " --json").output);
  for (const ConfigNode& difference : member(json, "difference").children) {
    CAPTURE(difference.key);
    CHECK(number(difference, "absolute") == 0);
  }
  CHECK(member(json, "difference").children.size() > 15);
  CHECK(member(json, "config").children.empty());
  CHECK(run_simrun(tiny + " " + tiny + " --no-html").output.find("the configs are equal") !=
        std::string::npos);
}

TEST_CASE("program: a comparison holds both summaries, B less A, and the keys that differ") {
  const Scratch scratch;
  std::string changed = read(tiny);
  changed.replace(changed.find("micro_batch_size: 2"), 19, "micro_batch_size: 1");
  const std::string a = scratch.write("a.yaml", read(tiny)), b = scratch.write("b.yaml", changed);
  const ConfigNode json = parsed_json(run_simrun(a + " " + b + " --json").output);
  for (const char* key : {"step_time_s", "mfu", "bubble_s", "peak_memory_bytes"}) {
    CAPTURE(key);
    const double of_a = number(member(json, "a"), key), of_b = number(member(json, "b"), key);
    const ConfigNode& difference = member(member(json, "difference"), key);
    CHECK(number(difference, "absolute") == Approx(of_b - of_a).epsilon(1e-12));
    CHECK(number(difference, "relative") == Approx((of_b - of_a) / of_a).epsilon(1e-12));
  }
  for (const char* side : {"a", "b"}) {
    const ConfigNode& likely = member(member(json, side), "likely");
    CHECK(number(likely, "step_time_from_s") < number(likely, "step_time_to_s"));
  }
  const ConfigNode& config = member(json, "config");
  REQUIRE(config.children.size() == 1);
  CHECK(member(config.children[0], "key").text == "training.micro_batch_size");
  CHECK(member(config.children[0], "a").text == "2");
  CHECK(member(config.children[0], "b").text == "1");
}

TEST_CASE("program: the page of a comparison lies beside A; --set holds for both") {
  const Scratch scratch;
  const std::string a = scratch.write("a.yaml", read(tiny)), b = scratch.write("b.yaml", read(tiny));
  const Ran ran = run_simrun(a + " " + b + " --set training.global_batch_size=16");
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  CHECK(ran.output.find("the configs are equal") != std::string::npos);
  const std::string page = read(scratch.file("a-vs-b.html"));
  CHECK(page.find("</html>") != std::string::npos);
  for (const char* part : {"id=\"facts\">{", "id=\"facts-b\">{", "Numbers of the steady step"}) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  }
  CHECK(run_simrun(a + " " + b + " --json --set training.global_batch_size=16").output.find("\"a\"") !=
        std::string::npos);
  CHECK(scratch.files() == 3);
}

TEST_CASE("program: Plan files are compared by what they know of their jobs") {
  const Scratch scratch;
  const std::string plan = scratch.file("tiny.plan"), other = scratch.file("other.plan");
  REQUIRE(run_simrun(tiny + " --no-html --plan " + plan).code == 0);
  REQUIRE(run_simrun(tiny + " --no-html --set parallelism.pipeline_schedule=gpipe --plan " + other).code ==
          0);
  const ConfigNode equal = parsed_json(run_simrun(plan + " " + tiny + " --json").output);
  CHECK(member(equal, "config").children.empty());
  const ConfigNode json = parsed_json(run_simrun(plan + " " + other + " --json").output);
  CHECK(member(member(json, "config").children[0], "key").text == "schedule");
}

TEST_CASE("program: a comparison exits with 3 only if neither side fits, and tells the mistakes of both") {
  const Scratch scratch;
  const std::string fits = scratch.write("fits.yaml", read(tiny));
  std::string text = read(tiny);
  text.replace(text.find("gpus_per_node: 4"), 16, "gpus_per_node: 4, reserved_memory: 79.99 GiB");
  const std::string full = scratch.write("full.yaml", text), full_too = scratch.write("full2.yaml", text);
  CHECK(run_simrun(fits + " " + full + " --no-html").code == 0);
  const Ran neither = run_simrun(full + " " + full_too + " --no-html");
  CHECK(neither.code == 3);
  CHECK(neither.output.find("full: does not fit: ") != std::string::npos);
  CHECK(neither.output.find("full2: does not fit: ") != std::string::npos);
  CHECK(run_simrun(full + " " + full_too + " --no-html -q").output.starts_with("full: does not fit: "));
  const Ran none = run_simrun("no-a.yaml no-b.yaml");
  CHECK(none.code == 2);
  CHECK(none.output.find("no-a.yaml: error") != std::string::npos);
  CHECK(none.output.find("no-b.yaml: error") != std::string::npos);
}

TEST_CASE("program: three jobs, or flags about one job, are refused") {
  CHECK(run_simrun("a b c").output ==
        "simrun: error: more than two configs: one is simulated, two are compared\n");
  for (const char* flag : {"--check", "--print-config", "--print-schedule", "--plan p", "--trace t.json",
                           "--schedule-csv s.csv", "--sensitivity"}) {
    const Ran ran = run_simrun(std::string("a.yaml b.yaml ") + flag);
    CAPTURE(flag, ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output.find("does not go with a comparison of two jobs") != std::string::npos);
  }
}

}  // namespace
}  // namespace simrun
