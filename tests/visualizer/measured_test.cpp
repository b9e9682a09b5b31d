#include <catch2/catch.hpp>

#include "example_run.h"
#include "visualizer/measured_table.h"
#include "visualizer/page.h"

namespace simrun {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE(
    "the page of a run that was measured has a second group of lanes per pipeline rank, and the table") {
  const ExampleRun run = example_run({.ranks = 3});
  ExampleRun slower = example_run({.ranks = 3, .jitter = true});
  slower.timeline.step = 2 * run.timeline.step;
  for (RankTimeline& rank : slower.timeline.ranks) rank.memory.clear();
  const std::string page = html_page(run.plan, run.timeline, slower.timeline, run.summary);
  CHECK(count_of(page, "\"measured\":true") == 3);
  CHECK(count_of(html_page(run.plan, run.timeline, run.summary), "\"measured\":true") == 0);
  // The axis is as long as the longer of the two.
  CHECK(page.find("\"step\":" + std::to_string(slower.timeline.step) + ",") != std::string::npos);
  CHECK(page.find("\"predictedStep\":" + std::to_string(run.timeline.step) + ",") != std::string::npos);
  CHECK(page.find("<h2>Measured</h2>") != std::string::npos);
  CHECK(page == html_page(run.plan, run.timeline, slower.timeline, run.summary));
}

TEST_CASE(
    "what was measured elsewhere is shown under a heading of its own, and its notes under the numbers") {
  const ExampleRun run = example_run({.ranks = 2});
  const std::string page =
      html_page(run.plan, run.timeline, {run.plan, run.timeline, "a <table>\nexchanges\n", "2 ranks & 8\n"},
                run.summary);
  CHECK(count_of(
            page,
            "<div class=\"measured\"><h2>Measured</h2>\n<pre>a &lt;table&gt;\nexchanges\n</pre></div>") == 1);
  const std::size_t note = page.find("<p>2 ranks &amp; 8\n</p>");
  CHECK(note < page.find("</header>"));
  CHECK(note > page.find("<dl>"));
}

TEST_CASE("the table of predicted and measured seconds shows the error of the prediction") {
  MeasuredComparison of;
  of.step = {"step", 1.5, 1, 7};
  of.by_kind = {{"gemm", 0.9, 1, 5}, {"all_reduce", 0.1, 0, 2}};
  of.by_phase = {{"forward", 1, 1, 7}};
  CHECK(measured_table(of) ==
        "                   predicted  measured    error  instructions\n"
        "step                 1.500 s   1.000 s  +50.0 %             7\n"
        "kind   gemm         900.0 ms   1.000 s  -10.0 %             5\n"
        "       all_reduce   100.0 ms       0 s                      2\n"
        "phase  forward       1.000 s   1.000 s   +0.0 %             7\n");
  of.gpus = 2;
  CHECK(measured_table(of).ends_with("kind and phase: sums over 2 GPUs\n"));
  of.gpus = 1;
  CHECK(measured_json(of) ==
        "{\"step\": {\"name\": \"step\", \"predicted_s\": 1.5, \"measured_s\": 1, \"error\": 0.5, "
        "\"instructions\": "
        "7}, \"gpus\": 1, \"by_kind\": [{\"name\": \"gemm\", \"predicted_s\": 0.9, \"measured_s\": 1, "
        "\"error\": "
        "-0.09999999999999998, \"instructions\": 5}, {\"name\": \"all_reduce\", \"predicted_s\": 0.1, "
        "\"measured_s\": 0, \"error\": null, \"instructions\": 2}], \"by_phase\": [{\"name\": \"forward\", "
        "\"predicted_s\": 1, \"measured_s\": 1, \"error\": 0, \"instructions\": 7}]}");
}

}  // namespace simrun
