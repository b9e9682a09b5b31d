#include "visualizer/scatter_plot.h"

#include <catch2/catch.hpp>

#include "visualizer/csv_text.h"

namespace simrun {
namespace {

TEST_CASE("scatter: points lie on equal log scales of whole decades") {
  // 2 to 300: decades from 1 to 1,000, 560 units for three of them
  const std::string svg =
      scatter_plot({"t", "x", "y", {"one"}, {{10, 100, 0, "a < b", "#job-1"}, {2, 300, 0, "", ""}}});
  CHECK(svg.find("<circle cx=\"248.7\" cy=\"200.7\"") !=
        std::string::npos);  // 62 + 560 / 3, 574 - 2 x 560 / 3
  CHECK(svg.find("<a href=\"#job-1\"><g><title>a &lt; b</title>") != std::string::npos);
  CHECK(svg.find("M62.0 574.0L622.0 14.0") != std::string::npos);  // y = x
}

TEST_CASE("scatter: what has no logarithm is not drawn, and nothing is no plot") {
  CHECK(scatter_plot({"t", "x", "y", {"one"}, {{0, 1, 0, "", ""}, {1, -1, 0, "", ""}}}).empty());
  CHECK(scatter_plot({"t", "x", "y", {}, {}}).empty());
  const std::string one = scatter_plot({"t", "x", "y", {"one"}, {{5, 5, 0, "", ""}, {0, 1, 0, "gone", ""}}});
  CHECK(one.find("gone") == std::string::npos);
}

TEST_CASE("CSV: fields with commas, quotes and line ends are quoted") {
  CHECK(csv_line({"a", "b,c", "say \"x\"", "two\nlines", ""}) ==
        "a,\"b,c\",\"say \"\"x\"\"\",\"two\nlines\",\n");
}

}  // namespace
}  // namespace simrun
