#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "schedules/pipeline_schedule.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string of_four_by_eight = " --ranks 4 --microbatches 8";

std::vector<std::string> texts_in(const ConfigNode& list) {
  std::vector<std::string> values;
  for (const ConfigNode& item : list.children) values.push_back(item.text);
  return values;
}

TEST_CASE("playground: ZB-V idles (p - 1) F on every rank and 0 within its span, at F = I = W") {
  const Ran ran = run_simrun("--schedule zb_v --json" + of_four_by_eight);
  CHECK(ran.code == 0);
  const ConfigNode json = parsed_json(ran.output);
  CHECK(member(json, "schedule").text == "zb_v");
  CHECK(number(json, "virtual") == 2);
  CHECK(number(json, "makespan") == 8 * 2 * 3 + 3);
  CHECK(texts_in(member(json, "idle")) == std::vector<std::string>{"3", "3", "3", "3"});
  CHECK(texts_in(member(json, "span_idle")) == std::vector<std::string>{"0", "0", "0", "0"});
  CHECK(number(json, "parameter_copies") == 1);
  CHECK(member(json, "ops").children.size() == 4);
}

TEST_CASE("playground: DualPipe's bubble at F = I >= W is (p/2 - 1)(FB + B - 3 W), in decimal units too") {
  // p = 4: FB + B - 3 W = 4.5 + 3 - 3 = 4.5.
  const Ran ran = run_simrun("--schedule dualpipe --json --costs F=2,I=2,W=1,FB=4.5" + of_four_by_eight);
  const ConfigNode json = parsed_json(ran.output);
  CHECK(number(json, "parameter_copies") == 2);
  double most = 0;
  for (const ConfigNode& idle : member(json, "idle").children) most = std::max(most, std::stod(idle.text));
  CHECK(most == 4.5);
}

TEST_CASE("playground: the two directions of DualPipe may be called two stages per rank") {
  const std::string dualpipe = "--schedule dualpipe --json" + of_four_by_eight;
  CHECK(run_simrun(dualpipe + " --virtual 2").output == run_simrun(dualpipe).output);
}

TEST_CASE("playground: a grid and a page by default, none with --no-html, ops alone with --dry") {
  const Scratch scratch;
  const std::string page = scratch.file("1f1b.html");
  const Ran drawn = run_simrun("--schedule 1f1b --ranks 2 --microbatches 2 --html " + page);
  CHECK(drawn.code == 0);
  CHECK(drawn.output.find("rank 0 F0 F1 .  .  B0--- .  B1---\n") != std::string::npos);
  CHECK(drawn.output.find("wrote " + page) != std::string::npos);
  CHECK(read(page).find("<dt>makespan</dt><dd>9</dd>") != std::string::npos);
  CHECK(run_simrun("--schedule 1f1b --ranks 2 --microbatches 2 --dry").output ==
        "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n");
  CHECK(run_simrun("--schedule 1f1b --ranks 2 --microbatches 2 --no-html -q").output.empty());
}

TEST_CASE("playground: what is written as CSV is read as a schedule, with the same figures") {
  const Scratch scratch;
  const std::string csv = scratch.file("own.csv");
  const Ran written = run_simrun("--schedule zb_v --json --schedule-csv " + csv + of_four_by_eight);
  const Ran back = run_simrun("--schedule " + csv + " --json");
  CHECK(back.code == 0);
  const std::string figures = written.output.substr(written.output.find("\"ranks\""));
  CHECK(back.output.substr(back.output.find("\"ranks\"")) == figures);
}

TEST_CASE("playground: a CSV that does not validate is refused at the place, with the marked grid") {
  const Scratch scratch;
  const std::string csv = scratch.write("bad.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  const Ran ran = run_simrun("--schedule " + csv);
  CHECK(ran.code == 2);
  CHECK(ran.output == csv + ":1:5: error: 0B0 waits for 1B0, which rank 1 does not reach\n" +
                          "  0F0,0B0,0F1,0B1\n      ^\n" + csv +
                          ":2:5: error: 1F1 waits for 0F1, which rank 0 does not reach\n" +
                          "  1F0,1F1,1B0,1B1\n      ^\n"
                          "  hint: the lists:\n"
                          "rank 0: 0F0 0B0 <-- ERROR HERE 0F1 0B1\n"
                          "rank 1: 1F0 1F1 <-- ERROR HERE 1B0 1B1\n"
                          "2 errors; nothing was run.\n");
  CHECK(run_simrun("--schedule no-such.csv").output.find("no-such.csv: error: cannot be read") == 0);
}

TEST_CASE("playground: all schedules that accept the sizes, best first, and why the others do not") {
  const Ran table = run_simrun("--schedule all --ranks 3 --microbatches 6");
  CHECK(table.code == 0);
  CHECK(table.output.find("\n1f1b ") != std::string::npos);
  CHECK(table.output.find("refused: dualpipe: ") != std::string::npos);
  const ConfigNode json = parsed_json(run_simrun("--schedule all --json --ranks 3 --microbatches 6").output);
  const std::vector<ConfigNode>& accepted = member(json, "schedules").children;
  REQUIRE(accepted.size() > 5);
  double last = 0;
  for (const ConfigNode& schedule : accepted) {
    CHECK(number(schedule, "bubble_ratio") >= last);
    last = number(schedule, "bubble_ratio");
  }
  const std::vector<ConfigNode>& refused = member(json, "refused").children;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    const auto is_entry = [&](const ConfigNode& node) { return member(node, "schedule").text == entry.name; };
    CHECK(std::ranges::count_if(accepted, is_entry) + std::ranges::count_if(refused, is_entry) == 1);
  }
  for (const ConfigNode& refusal : refused)  // the same words as in the table
    CHECK(table.output.find("refused: " + member(refusal, "schedule").text + ": " +
                            member(refusal, "why").text + "\n") != std::string::npos);
}

TEST_CASE(
    "playground: the gallery draws every schedule that accepts the sizes, and says why the others do not",
    "[long]") {
  const Scratch scratch;
  const std::string path = scratch.file("all.html");
  const Ran ran = run_simrun("--schedule all --ranks 3 --microbatches 6 --html " + path);
  CHECK(ran.code == 0);
  CHECK(ran.output.find("\nwrote " + path) != std::string::npos);
  const std::string page = read(path);
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    const bool is_refused = ran.output.find("refused: " + entry.name + ": ") != std::string::npos;
    const bool is_drawn = page.find("<section id=\"" + entry.name + "\">") != std::string::npos;
    CHECK(is_drawn != is_refused);
    CHECK(page.find("<th scope=\"row\">" + entry.name + "</th>") != std::string::npos);
  }
  const Ran too_many = run_simrun("--schedule all --ranks 64 --microbatches 512 -q --html " + path);
  CHECK(too_many.code == 0);
  CHECK(too_many.output.find("simrun: no page: ") == 0);
  CHECK(run_simrun("--schedule all --dry --html x.html" + of_four_by_eight).output ==
        "simrun: error: --html does not go with --dry\n");
}

TEST_CASE("playground: all that is wrong is said at once, and the program exits with 2") {
  const Ran ran = run_simrun("--schedule zbw --ranks x --costs F=a,G=3,W=1,W=2 --comm -1");
  CHECK(ran.code == 2);
  CHECK(ran.output.find("--ranks: error: 'x' is not a whole number from 1 to 4096") == 0);
  CHECK(ran.output.find("--microbatches: error: is needed") != std::string::npos);
  CHECK(ran.output.find("F='a' is not a number") != std::string::npos);
  CHECK(ran.output.find("'G=3' is not one of F=, B=, I=, W= and FB=") != std::string::npos);
  CHECK(ran.output.find("W is given twice") != std::string::npos);
  CHECK(ran.output.find("--comm: error: '-1' is not a number") != std::string::npos);
  CHECK(ran.output.find("unknown schedule 'zbw'") != std::string::npos);
  CHECK(ran.output.find("7 errors; nothing was run.") != std::string::npos);
}

TEST_CASE("playground: sizes that a schedule does not accept are refused with the rule") {
  const Ran ran = run_simrun("--schedule dualpipe --ranks 3 --microbatches 6");
  CHECK(ran.code == 2);
  CHECK(ran.output.find("--schedule dualpipe: error: ") == 0);
  CHECK(ran.output.find("even") != std::string::npos);
}

TEST_CASE("playground: it takes no job, and a job takes none of its flags") {
  CHECK(run_simrun(tiny + " --schedule 1f1b").output ==
        "simrun: error: --schedule draws a schedule without a job\n"
        "  hint: a job's own: --set parallelism.pipeline_schedule=1f1b\n");
  CHECK(run_simrun(tiny + " --ranks 4").output == "simrun: error: --ranks goes with --schedule\n");
  CHECK(run_simrun("--schedule 1f1b --engine fast" + of_four_by_eight).output ==
        "simrun: error: --engine does not go with --schedule\n");
  CHECK(run_simrun("--schedule s.csv --ranks 4").output.find("has its own sizes") != std::string::npos);
}

TEST_CASE("playground: 64 ranks and 4,096 microbatches answer; a page of that is refused with a note") {
  const Ran ran = run_simrun("--schedule 1f1b --ranks 64 --microbatches 4096 -q");
  CHECK(ran.code == 0);
  CHECK(ran.output == "simrun: no page: 524288 passes are more than the 400000 that a page can show\n");
  const Ran too_much = run_simrun("--schedule 1f1b --ranks 4096 --microbatches 100000");
  CHECK(too_much.code == 2);
  CHECK(too_much.output.find("is above 8000000") != std::string::npos);
}

TEST_CASE("playground: groups are taken by the schedules that are built of them, and refused by others") {
  const auto code = [](const std::string& schedule) {
    return run_simrun("--schedule " + schedule +
                      " --dry --ranks 4 --microbatches 16 --virtual 2 --group-size 8")
        .code;
  };
  CHECK(code("interleaved_1f1b") == 0);
  CHECK(code("grouped_interleaved_1f1b") == 0);
  CHECK(code("looped_bfs") == 2);
  CHECK(code("zb_v") == 2);
}

// A schedule that its table has as one of groups, and any other, is so to a job's loader.
TEST_CASE("playground: a job's key of groups is known to the schedules whose entries say so") {
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    CAPTURE(entry.name);
    const Ran ran = run_simrun(tiny + " --check --set parallelism.pipeline_schedule=" + entry.name +
                               " --set parallelism.microbatch_group_size_per_vp_stage=2");
    CHECK((ran.output.find("has no groups of microbatches") == std::string::npos) == entry.takes_groups);
  }
}

}  // namespace
}  // namespace simrun
