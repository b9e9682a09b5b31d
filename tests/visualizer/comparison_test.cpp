#include "visualizer/comparison.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/visualizer/example_run.h"

namespace simrun {
namespace {

Comparison example() {
  const Summary summary = example_run().summary;
  return {"a", "b", summary, summary, {}};
}

const ComparedNumber& number(const std::vector<ComparedNumber>& numbers, const std::string& key) {
  const auto found = std::ranges::find(numbers, key, &ComparedNumber::key);
  REQUIRE(found != numbers.end());
  return *found;
}

TEST_CASE("comparison: parts sum to what they are part of") {
  const Comparison same = example();
  double bubble = 0, exposed = 0, memory = 0;
  const std::vector<ComparedNumber> numbers = compared_numbers(same.a, same.b);
  for (const ComparedNumber& n : numbers) {
    if (n.key.starts_with("bubble_by_cause_s.")) bubble += n.a;
    if (n.key.starts_with("exposed_by_traffic_s.")) exposed += n.a;
    if (n.key.starts_with("peak_memory.")) memory += n.a;
  }
  CHECK(bubble == Approx(number(numbers, "bubble_s").a));
  CHECK(exposed == Approx(number(numbers, "exposed_comm_s").a));
  CHECK(memory == number(numbers, "peak_memory_bytes").a);
}

TEST_CASE("comparison: the difference is B less A, shares in points, and a share of A in %") {
  Comparison comparison = example();
  comparison.a.step_time_s = 2;
  comparison.b.step_time_s = 1.5;
  comparison.a.mfu = 0.5;
  comparison.b.mfu = 0.55;
  comparison.a.first_step_s = 0;
  comparison.b.first_step_s = 1;
  const std::string text = comparison_table(comparison);
  CAPTURE(text);
  CHECK(text.find("2.000 s    1.500 s     -0.500 s") != std::string::npos);
  CHECK(text.find("-25.0 %\n") != std::string::npos);
  CHECK(text.find("50.0 %     55.0 %  +5.0 points  +10.0 %") != std::string::npos);
  const std::string json = comparison_json(comparison, "{}\n", "{}\n");
  CHECK(json.find("\"step_time_s\": {\"absolute\": -0.5, \"relative\": -0.25}") != std::string::npos);
  CHECK(json.find("\"first_step_s\": {\"absolute\": 1, \"relative\": null}") != std::string::npos);
}

TEST_CASE("comparison: images are compared with images, and with tokens not at all") {
  const auto keys = [](bool a, bool b) {
    Comparison comparison = example();
    comparison.a.counts_images = a;
    comparison.b.counts_images = b;
    std::string text;
    for (const ComparedNumber& n : compared_numbers(comparison.a, comparison.b))
      if (n.key.find("_per_s") != std::string::npos) text += n.key + ": " + n.label + "\n";
    return text;
  };
  CHECK(keys(false, false) == "tokens_per_s: tokens/s\ntokens_per_s_per_gpu: tokens/s per GPU\n");
  CHECK(keys(true, true) == "images_per_s: images/s\nimages_per_s_per_gpu: images/s per GPU\n");
  CHECK(keys(true, false).empty());
}

TEST_CASE("comparison: equal sides say so; keys that one side lacks have a dash") {
  Comparison comparison = example();
  CHECK(comparison_table(comparison).ends_with("the configs are equal\n"));
  comparison.config = {{"training.x", "1", ""}};
  CHECK(comparison_table(comparison).ends_with("training.x               1  -\n"));
  CHECK(comparison_text(comparison).tables.find("<th scope=\"row\">training.x</th><td>1</td><td>-</td>") !=
        std::string::npos);
}

}  // namespace
}  // namespace simrun
