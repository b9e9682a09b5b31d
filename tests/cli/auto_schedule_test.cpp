#include <catch2/catch.hpp>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string four_by_eight = " --ranks 4 --microbatches 8";

bool says(const Ran& ran, const std::string& text) { return ran.output.find(text) != std::string::npos; }

TEST_CASE("playground auto: with as many activations as ranks it meets the proven bound") {
  // F, I, W = 2, 3, 1: rank 0 has no gradient until 4 x 2 + 3 x 3 = 17 and 8 to do; it idles 9 there and 3
  // while the last microbatch comes back: 9 + 8 x 6 + 3.
  const std::string flags = "--schedule auto --costs F=2,I=3,W=1 --memory-limit 4" + four_by_eight;
  const Ran ran = run_simrun(flags + " --json");
  CHECK(ran.code == 0);
  const ConfigNode json = parsed_json(ran.output);
  CHECK(member(json, "schedule").text == "auto");
  CHECK(number(json, "makespan") == 60);
  CHECK(number(json, "lower_bound") == 60);
  CHECK(number(json, "gap") == 0);
  CHECK(member(json, "placement").text == "loop");
  CHECK(!member(json, "start").text.empty());
  CHECK(member(json, "ops").children.size() == 4);
  CHECK(
      says(run_simrun(flags + " --no-html"), "no order is shorter: the makespan is the proven lower bound"));
}

TEST_CASE("playground auto: a makespan above the bound is said to be, with the gap", "[long]") {
  const std::string flags =
      "--schedule auto --virtual 2 --costs F=2,I=3,W=1 --comm 0.5 --memory-limit 4"
      " --search-effort 2" +
      four_by_eight;
  const ConfigNode json = parsed_json(run_simrun(flags + " --json").output);
  const double bound = number(json, "lower_bound");
  CHECK(number(json, "makespan") > bound);
  CHECK(number(json, "gap") == Approx((number(json, "makespan") - bound) / bound));
  CHECK(member(json, "placement").text == "wave");
  const Ran drawn = run_simrun(flags + " --no-html");
  CHECK(says(drawn,
             "stages in a wave; no order takes less than " + member(json, "lower_bound").text + ": gap "));
  CHECK(says(drawn, "(within the limit of 4)"));
}

TEST_CASE("playground auto: it is a row of all, within its own small effort") {
  const Ran ran = run_simrun("--schedule all" + four_by_eight);
  CHECK(says(ran, "\nauto "));
  CHECK(says(ran, "auto: searched with an effort of 4 million passes"));
}

TEST_CASE("playground auto: what it cannot do is refused with what it can") {
  const std::string flags = "--schedule auto --virtual 2" + four_by_eight;
  const Ran short_of_memory = run_simrun(flags + " --memory-limit 1");
  CHECK(short_of_memory.code == 2);
  CHECK(says(short_of_memory, "the memory limit must be at least 2, not 1"));
  CHECK(run_simrun(flags + " --slices 2").code == 2);
  CHECK(says(run_simrun("--schedule zb_v --search-effort 2" + four_by_eight),
             "--search-effort: error: only --schedule auto and all search"));
  CHECK(says(run_simrun("--schedule aut" + four_by_eight), "did you mean 'auto'?"));
  CHECK(says(run_simrun(tiny + " --search-effort 2"), "--search-effort goes with --schedule"));
}

}  // namespace
}  // namespace simrun
