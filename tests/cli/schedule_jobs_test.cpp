#include <catch2/catch.hpp>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

// Jobs whose schedule comes from a file or a search, through the program.
namespace simrun {
namespace {

const std::string key = "parallelism.pipeline_schedule";

// The tiny job (2 ranks, 4 microbatches) with a schedule, beside what else is in the folder.
std::string tiny_with(const Scratch& scratch, const std::string& name, const std::string& schedule) {
  std::string text = read(tiny);
  const std::string line = "  pipeline_model_parallel_size: 2\n";
  text.insert(text.find(line) + line.size(), "  pipeline_schedule: " + schedule + "\n");
  return scratch.write(name, text);
}

const std::string deadlock = "0F0,0B0,0F1,0B1,0F2,0B2,0F3,0B3\n1F0,1F1,1B0,1B1,1F2,1B2,1F3,1B3\n";

}  // namespace

TEST_CASE("a written schedule runs as a job's own and takes the same step") {
  const Scratch scratch;
  const std::string csv = scratch.file("mine.csv");
  const Ran written = run_simrun(tiny + " --json --schedule-csv " + csv);
  REQUIRE(written.code == 0);
  const Ran ran = run_simrun(tiny_with(scratch, "job.yaml", "mine.csv") + " --json");
  REQUIRE(ran.code == 0);
  const ConfigNode own = parsed_json(ran.output);
  CHECK(member(own, "schedule").text == "mine.csv");
  CHECK(number(own, "step_time_s") == number(parsed_json(written.output), "step_time_s"));
}

TEST_CASE("a job's schedule that cannot run is refused at its key, at its place and with the lists") {
  const Scratch scratch;
  scratch.write("bad.csv", deadlock);
  const Ran ran = run_simrun(tiny_with(scratch, "job.yaml", "bad.csv") + " --no-html");
  CHECK(ran.code == 2);
  const std::string job = scratch.file("job.yaml"), csv = scratch.file("bad.csv");
  CHECK(ran.output.starts_with(job +
                               ":19:22: error: the schedule cannot run: bad.csv, line 1: 0B0 waits for "
                               "1B0, which rank 1 does not reach\n"
                               "    pipeline_schedule: bad.csv\n"
                               "                       ^\n" +
                               csv + ":1:5: error: 0B0 waits for 1B0, which rank 1 does not reach\n"));
  CHECK(ran.output.find("rank 1: 1F0 1F1 <-- ERROR HERE 1B0") != std::string::npos);
  CHECK(scratch.files() == 2);
}

TEST_CASE("sizes that a schedule's rule refuses are told at its key") {
  const Scratch scratch;
  const std::string job = tiny_with(scratch, "job.yaml", "chimera");
  const Ran ran = run_simrun(job + " --no-html --set training.global_batch_size=6");
  CHECK(ran.code == 2);
  CHECK(
      ran.output.starts_with(job + ":19:22: error: rounds of one microbatch per rank need a multiple of 2"));
}

TEST_CASE("CSVs, names and auto are compared in one sweep, a broken CSV is a row that says why") {
  const Scratch scratch;
  scratch.write("good.csv", "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  scratch.write("bad.csv", deadlock);
  const std::string job = tiny_with(scratch, "job.yaml", "1f1b");
  const Ran ran = run_simrun(job + " --json --sweep " + key + "=good.csv,bad.csv,1f1b,auto");
  REQUIRE(ran.code == 0);
  const ConfigNode rows = parsed_json(ran.output);
  REQUIRE(rows.children.size() == 4);
  const double of_1f1b = number(rows.children[2], "step_time_s");
  CHECK(number(rows.children[0], "step_time_s") == of_1f1b);
  CHECK(ran.output.find("the schedule cannot run: bad.csv, line 1") != std::string::npos);
  CHECK(number(rows.children[3], "step_time_s") <= of_1f1b);
}

TEST_CASE("a CSV is an input that no output may replace, and two jobs compare") {
  const Scratch scratch;
  const std::string csv = scratch.file("mine.csv");
  REQUIRE(run_simrun(tiny + " --no-html -q --schedule-csv " + csv).code == 0);
  const std::string job = tiny_with(scratch, "job.yaml", "mine.csv");
  const Ran over = run_simrun(job + " --no-html --schedule-csv " + csv);
  CHECK(over.code == 2);
  CHECK(over.output.find("this would overwrite the input") != std::string::npos);
  const Ran compared = run_simrun(job + " " + tiny_with(scratch, "other.yaml", "gpipe") + " --no-html");
  CHECK(compared.code == 0);
  CHECK(compared.output.find("pipeline_schedule") != std::string::npos);
}

TEST_CASE("auto tells its distance to the bound, on the screen, in JSON and from a plan file") {
  const Scratch scratch;
  const std::string job = tiny_with(scratch, "job.yaml", "auto"), plan = scratch.file("job.plan");
  const Ran screen = run_simrun(job + " --no-html --plan " + plan);
  REQUIRE(screen.code == 0);
  CHECK(screen.output.find("\norder of ") != std::string::npos);
  const Ran json = run_simrun(plan + " --json");
  REQUIRE(json.code == 0);
  const ConfigNode summary = parsed_json(json.output);
  const ConfigNode& found = member(summary, "found_schedule");
  CHECK(number(found, "lower_bound_s") > 0);
  CHECK(number(found, "lower_bound_s") <= number(found, "makespan_s"));
  CHECK(number(found, "makespan_s") < number(summary, "step_time_s"));
  CHECK(json.output == run_simrun(job + " --json").output);
}

}  // namespace simrun
