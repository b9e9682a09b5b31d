#include "visualizer/peak_treemap.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace simrun {

TEST_CASE("a treemap's first row is as square as it can be: 6 6 4 3 2 2 1 in 6 x 4") {
  // The example of Bruls et al., figure 4: two sixes stand at the left, 4 and 3 above what is left of it.
  const std::vector<TreemapCell> cells = squarified({6, 6, 4, 3, 2, 2, 1}, {0, 0, 6, 4});
  REQUIRE(cells.size() == 7);
  const auto is_at = [&](std::size_t i, double x, double y, double width, double height) {
    CAPTURE(i, cells[i].x, cells[i].y, cells[i].width, cells[i].height);
    CHECK(cells[i].x == Approx(x));
    CHECK(cells[i].y == Approx(y));
    CHECK(cells[i].width == Approx(width));
    CHECK(cells[i].height == Approx(height));
  };
  is_at(0, 0, 0, 3, 2);
  is_at(1, 0, 2, 3, 2);
  is_at(2, 3, 0, 12. / 7, 7. / 3);
  is_at(3, 3 + 12. / 7, 0, 9. / 7, 7. / 3);
}

TEST_CASE("a treemap's areas are as its weights, whatever they are") {
  std::vector<double> weights(60);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 1e9 / static_cast<double>((i + 1) * (i + 1));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::vector<TreemapCell> cells = squarified(weights, {10, 20, 640, 300});
  REQUIRE(cells.size() == weights.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    CAPTURE(i);
    CHECK(cells[i].width * cells[i].height == Approx(weights[i] / sum * 640 * 300));
    CHECK(cells[i].x >= 10 - 1e-9);
    CHECK(cells[i].x + cells[i].width <= 650 + 1e-6);
    CHECK(cells[i].y + cells[i].height <= 320 + 1e-6);
  }
}

TEST_CASE("what is alive is named by tensor, with layers and instances") {
  const std::vector<AliveTensors> alive = {{Category::weights, "w<q>", 0, 1, 1 << 20},
                                           {Category::weights, "w<q>", 1, 1, 1 << 20},
                                           {Category::activations, "saved input", 3, 8, 6 << 20}};
  const std::string html = peak_treemap(alive, "pp 2");
  CHECK(html.find("What is alive at the peak of pp 2: 8.0 MiB") != std::string::npos);
  CHECK(html.find("<title>w&lt;q&gt; (weights): 2.0 MiB, 2 alive, layers 0-1</title>") != std::string::npos);
  CHECK(html.find("<title>saved input (activations): 6.0 MiB, 8 alive, layer 3</title>") !=
        std::string::npos);
  CHECK(html.find("<td>75.0 %</td>") != std::string::npos);
  CHECK(peak_treemap({}, "pp 0").empty());
}

}  // namespace simrun
