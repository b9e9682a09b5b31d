#include "visualizer/collective_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "visualizer/page_tables.h"
#include "visualizer/plain_page.h"
#include "visualizer/quantity.h"

namespace simrun {

namespace {

// The drawing area, in units of its view box.
constexpr double axis_left = 70, axis_right = 690, axis_top = 14, axis_bottom = 300, page_height = 340,
                 page_width = 720;

// Okabe-Ito without yellow, which is faint on white.
constexpr std::array line_colours{"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"};
constexpr std::array dashes{"", "6 3", "2 3", "8 3 2 3"};

struct LogAxis {
  double least = 1, most = 1, from = 0, to = 1;
  double at(double value) const {
    const double share = most > least ? std::log(value / least) / std::log(most / least) : 0.5;
    return from + share * (to - from);
  }
};

std::string size_text(std::int64_t bytes) {
  constexpr std::array names{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < names.size(); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, names[unit]);
}

bool is_plotted(const CollectivePoint& point) { return point.busbw > 0 && point.bytes > 0; }

struct Axes {
  LogAxis x{1, 1, axis_left, axis_right}, y{1, 1, axis_bottom, axis_top};
};
Axes axes_of(const std::vector<CollectivePoint>& points) {
  Axes axes;
  bool is_first = true;
  for (const CollectivePoint& point : points) {
    if (!is_plotted(point)) continue;
    const auto bytes = static_cast<double>(point.bytes);
    axes.x.least = is_first ? bytes : std::min(axes.x.least, bytes);
    axes.x.most = is_first ? bytes : std::max(axes.x.most, bytes);
    axes.y.least = is_first ? point.busbw : std::min(axes.y.least, point.busbw);
    axes.y.most = is_first ? point.busbw : std::max(axes.y.most, point.busbw);
    is_first = false;
  }
  return axes;
}

std::string grid(const Axes& axes, const std::vector<CollectivePoint>& points) {
  std::string svg;
  const std::int64_t nodes = points.front().nodes;
  std::size_t labels = 0;
  for (const CollectivePoint& point : points) {
    if (point.nodes != nodes || labels++ % 2 != 0) continue;
    const double x = axes.x.at(static_cast<double>(std::max<std::int64_t>(point.bytes, 1)));
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x, axis_bottom + 18,
                       size_text(point.bytes));
  }
  for (double value = std::pow(10, std::ceil(std::log10(axes.y.least))); value <= axes.y.most; value *= 10)
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        axis_left, axis_right, axes.y.at(value), axes.y.at(value), axis_left - 6, axes.y.at(value) + 4,
        bandwidth_text(value));
  return svg;
}

// A curve and its row in the legend.
struct Curve {
  std::string svg, legend;
};
Curve curve(const Axes& axes, const std::vector<CollectivePoint>& points, std::size_t first,
            std::size_t number) {
  const char* colour = line_colours[number % line_colours.size()];
  const char* dash = dashes[number / line_colours.size() % dashes.size()];
  Curve drawn;
  std::string line;
  for (std::size_t p = first; p < points.size() && points[p].nodes == points[first].nodes; ++p) {
    if (!is_plotted(points[p])) continue;
    const double x = axes.x.at(static_cast<double>(points[p].bytes)), y = axes.y.at(points[p].busbw);
    line += fmt::format("{:.1f},{:.1f} ", x, y);
    drawn.svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {}, {} {}</title></circle>\n", x,
        y, colour, size_text(points[p].bytes), bandwidth_text(points[p].busbw),
        html_escaped(points[p].algorithm), html_escaped(points[p].protocol));
  }
  drawn.svg += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>\n",
      line, colour, dash);
  drawn.legend = fmt::format(
      "<li><svg viewBox=\"0 0 34 12\" aria-hidden=\"true\"><line x1=\"0\" x2=\"34\" y1=\"6\" y2=\"6\" "
      "stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/></svg> {} node{}, {} ranks</li>\n",
      colour, dash, points[first].nodes, points[first].nodes == 1 ? "" : "s", points[first].ranks);
  return drawn;
}

std::string plot(const CollectiveCurves& curves) {
  const std::vector<CollectivePoint>& points = curves.points;
  if (std::ranges::none_of(points, is_plotted)) return "";
  const Axes axes = axes_of(points);
  std::string svg = grid(axes, points), legend;
  for (std::size_t p = 0, number = 0; p < points.size(); ++p) {
    if (p > 0 && points[p].nodes == points[p - 1].nodes) continue;
    const Curve drawn = curve(axes, points, p, number++);
    svg += drawn.svg;
    legend += drawn.legend;
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" style=\"width: {}px; max-width: 100%\" role=\"img\" "
      "aria-label=\"bus bandwidth over sizes\">\n{}</svg>\n<ul class=\"legend\">\n{}</ul>\n",
      page_width, page_height, page_width, svg, legend);
}

}  // namespace

std::string collective_page(const CollectiveCurves& curves) {
  std::vector<HtmlRow> rows;
  for (const CollectivePoint& point : curves.points)
    rows.push_back({{fmt::format("{}", point.nodes), fmt::format("{}", point.ranks), size_text(point.bytes),
                     seconds_text(point.time_s), bandwidth_text(point.algbw), bandwidth_text(point.busbw),
                     point.algorithm, point.protocol},
                    ""});
  const std::string introduction =
      fmt::format("<p>Bus bandwidth (nccl-tests) of {} alone on {}, over the size of the data.</p>\n",
                  html_escaped(curves.collective), html_escaped(curves.cluster));
  return plain_page(
      fmt::format("{} on {}", curves.collective, curves.cluster),
      introduction + plot(curves) +
          html_table("Every size",
                     {"nodes", "ranks", "size", "time", "algbw", "busbw", "algorithm", "protocol"}, rows, 3));
}

}  // namespace simrun
