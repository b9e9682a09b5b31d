#include "visualizer/sweep_page.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "visualizer/sweep_plot.h"
#include "visualizer/text_table.h"

namespace simrun {
namespace {

using Scale = ValueAxis::Scale;

TEST_CASE("sweep plot: numbers lie by size, doublings on a log scale, words side by side") {
  CHECK(value_axis({"1", "2", "4", "8"}).scale == Scale::log);
  CHECK(value_axis({"1", "2", "3"}).scale == Scale::linear);
  CHECK(value_axis({"1", "2"}).scale == Scale::linear);
  CHECK(value_axis({"gpipe", "1f1b"}).scale == Scale::categories);
  CHECK(value_axis({"1", "x"}).scale == Scale::categories);
  const ValueAxis log = value_axis({"8", "2", "4"}), linear = value_axis({"0", "1", "4"});
  CHECK(log.at[0] - log.at[2] == Approx(log.at[2] - log.at[1]));
  CHECK(linear.at[2] - linear.at[0] == Approx(4 * (linear.at[1] - linear.at[0])));
  for (const double at : log.at) CHECK((at >= 0 && at <= 1));
  CHECK(value_axis({"7"}).at == std::vector<double>{0.5});
}

TEST_CASE("sweep plot: quantities of one kind are compared in one unit") {
  const ValueAxis bits = value_axis({"800 Gb/s", "100 GB/s", "200 GB/s"});  // 800 Gb/s = 100 GB/s
  CHECK(bits.scale == Scale::linear);
  CHECK(bits.at[0] == bits.at[1]);
  CHECK(value_axis({"1 us", "1 ms", "1 s"}).scale == Scale::log);
  CHECK(value_axis({"1 us", "1 GB/s"}).scale == Scale::categories);
}

// 3 x 2 points of which the second does not fit and the last was refused.
Sweep six_points() {
  Sweep sweep{"<job>", {{"p.tp", {"1", "2", "4"}}, {"t.schedule", {"gpipe", "1f1b"}}}, {}};
  for (const char* tp : {"1", "2", "4"})
    for (const char* schedule : {"gpipe", "1f1b"}) {
      SweepRow row{{tp, schedule}, SweepNumbers{}, "fast", ""};
      row.numbers->step_time_s = 8.0 / std::stod(tp);
      row.numbers->tokens_per_s_per_gpu = 100;
      row.numbers->mfu = 0.5;
      row.numbers->fits = sweep.rows.size() != 1;
      sweep.rows.push_back(row);
    }
  sweep.rows.back().numbers.reset();
  sweep.rows.back().error = "refused <here>";
  return sweep;
}

std::ptrdiff_t count_words(const std::string& text, const std::string& word) {
  std::ptrdiff_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST_CASE(
    "sweep plot: one line per combination of the other keys, a marker per point, crosses for the "
    "infeasible") {
  const std::string plot = sweep_plot(six_points());
  CHECK(count_words(plot, "<svg viewBox=\"0 0 420") == 3);
  CHECK(count_words(plot, "class=\"cross\"") == 3 * 2);
  CHECK(count_words(plot, "<circle") == 3 * 3 + 1);  // gpipe: three points per panel, one in the legend
  CHECK(count_words(plot, "schedule 1f1b</li>") == 1);
  CHECK(count_words(plot, "<title>tp 2, schedule gpipe: 4.000 s</title>") == 1);
  CHECK(count_words(plot, "does not fit</title>") == 3);
  CHECK(count_words(plot, ": refused</title>") == 3);
}

// A sweep of one key, drawn.
std::string plot_of(const std::vector<std::string>& values) {
  Sweep sweep{"job", {{"recompute", values}}, {}};
  for (const std::string& value : values) sweep.rows.push_back({{value}, SweepNumbers{}, "fast", ""});
  return sweep_plot(sweep);
}

TEST_CASE("sweep plot: maps are told apart by what they do not all begin with") {
  const std::string plot =
      plot_of({"{granularity: none}", "{granularity: full, method: uniform, num_layers: 1}"});
  CHECK(count_words(plot, ">none</text>") == 3);
  CHECK(count_words(plot, ">full, method…m_layers: 1</text>") == 3);
  CHECK(count_words(plot_of({"{n: 10}", "{n: 12}"}), ">12</text>") == 3);
  CHECK(count_words(plot_of({"{a: 1}", "{b: 1}"}), ">a: 1</text>") == 3);
  CHECK(count_words(plot_of({"{}", "{a: 1}"}), ">{}</text>") == 3);
  CHECK(count_words(plot_of({"{n: 1}"}), ">{n: 1}</text>") == 3);
}

TEST_CASE("sweep plot: no label is cut by the drawing's edge, and up to four long ones are all there") {
  for (const std::size_t count : {1U, 2U, 3U, 4U}) {
    std::vector<std::string> values;
    for (std::size_t v = 0; v < count; ++v) values.push_back(std::string(40, 'x') + std::to_string(v));
    const std::string plot = plot_of(values);
    const std::string tick = "y=\"206\" text-anchor=\"middle\">";
    CHECK(count_words(plot, tick) == static_cast<std::ptrdiff_t>(3 * count));
    for (std::size_t at = plot.find(tick); at != std::string::npos; at = plot.find(tick, at + 1)) {
      const std::string label = plot.substr(at + tick.size(), plot.find('<', at) - at - tick.size());
      const double x = std::stod(plot.substr(plot.rfind("x=\"", at) + 3));
      const double half = 3.1 * static_cast<double>(text_width(label));
      CAPTURE(count, label, x);
      CHECK(x - half >= -0.1);  // x is written to one decimal
      CHECK(x + half <= 420.1);
    }
  }
}

TEST_CASE("sweep plot: every panel has a title and a description for readers who do not see it") {
  const std::string plot = sweep_plot(six_points());
  for (const char* number : {"0", "1", "2"}) {
    CHECK(count_words(plot, std::string("aria-labelledby=\"plot") + number + " about" + number + "\"") == 1);
    CHECK(count_words(plot, std::string("<title id=\"plot") + number) == 1);
    CHECK(count_words(plot, std::string("<desc id=\"about") + number) == 1);
  }
}

TEST_CASE("sweep plot: more than 24 lines are not drawn, and the page says so") {
  Sweep sweep{"job", {{"a", {"1", "2"}}, {"b", {}}}, {}};
  for (int b = 0; b < 30; ++b) sweep.keys[1].values.push_back(std::to_string(b));
  for (const std::string& a : sweep.keys[0].values)
    for (const std::string& b : sweep.keys[1].values)
      sweep.rows.push_back({{a, b}, SweepNumbers{}, "fast", ""});
  CHECK(sweep_plot(sweep).find("The first 24 of 30 lines are drawn") != std::string::npos);
}

TEST_CASE("sweep plot: equal, zero and missing values draw no line that is not a number") {
  for (const double step : {0.0, 5.0, 1e-9, 1e9}) {
    Sweep sweep = six_points();
    for (SweepRow& row : sweep.rows)
      if (row.numbers) row.numbers->step_time_s = row.numbers->mfu = step;
    const std::string plot = sweep_plot(sweep);
    CHECK(plot.find("nan") == std::string::npos);
    CHECK(plot.find("inf") == std::string::npos);
  }
  Sweep refused = six_points();
  for (SweepRow& row : refused.rows) row.numbers.reset();
  CHECK(sweep_plot(refused).empty());
  CHECK(sweep_page(refused).find("</html>") != std::string::npos);
}

TEST_CASE(
    "sweep page: it fetches nothing, runs no script, escapes what users wrote, and the table has every row") {
  const std::string page = sweep_page(six_points());
  for (const char* foreign : {"<script", "http", "@import", "url(", "<job>", "<here>"})
    CHECK(page.find(foreign) == std::string::npos);
  CHECK(page.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(count_words(page, "<tr") == 1 + 6);
  CHECK(count_words(page, "<tr class=\"best\">") == 1);
  CHECK(count_words(page, "<tr class=\"over\">") == 1);
  CHECK(count_words(page, "refused: refused &lt;here&gt;") == 1);
  CHECK(page == sweep_page(six_points()));
}

}  // namespace
}  // namespace simrun
