#include "visualizer/scatter_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "visualizer/page_tables.h"

namespace simrun {
namespace {

// The drawing area, in units of the view box.
constexpr double scatter_left = 62, scatter_right = 622, scatter_top = 14, scatter_bottom = 574;

// Okabe-Ito without yellow and black, in turn with four shapes: 24 series that differ.
constexpr std::array<const char*, 6> series_colours{"#0072B2", "#E69F00", "#009E73",
                                                    "#CC79A7", "#D55E00", "#56B4E9"};

std::string marker(std::size_t series, double x, double y) {
  const char* colour = series_colours[series % series_colours.size()];
  switch (series / series_colours.size() % 4) {
    case 0: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>", x, y, colour);
    case 1: return fmt::format("<path d=\"M{:.1f} {:.1f}h5v5h-5z\" fill=\"{}\"/>", x - 2.5, y - 2.5, colour);
    case 2: return fmt::format("<path d=\"M{:.1f} {:.1f}l3.5 6h-7z\" fill=\"{}\"/>", x, y - 3.5, colour);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l3.5 3.5l-3.5 3.5l-3.5-3.5z\" fill=\"{}\"/>", x, y - 3.5,
                         colour);
  }
}

bool is_scattered(const ScatterPoint& point) {
  return point.x > 0 && point.y > 0 && std::isfinite(point.x) && std::isfinite(point.y);
}

// Both axes alike: whole decades around every point.
struct LogScale {
  int low = 0, high = 1;
  double place(double value) const { return (std::log10(value) - low) / (high - low); }
  double x(double value) const { return scatter_left + place(value) * (scatter_right - scatter_left); }
  double y(double value) const { return scatter_bottom - place(value) * (scatter_bottom - scatter_top); }
};

LogScale scale_of(const std::vector<ScatterPoint>& points) {
  double least = 0, most = 0;
  for (const ScatterPoint& point : points) {
    if (!is_scattered(point)) continue;
    const auto [small, large] = std::minmax(point.x, point.y);
    least = least == 0 ? small : std::min(least, small);
    most = std::max(most, large);
  }
  const int low = static_cast<int>(std::floor(std::log10(least)));
  return {low, std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))))};
}

std::string axes(const ScatterPlot& plot, const LogScale& scale) {
  std::string svg;
  for (int decade = scale.low; decade <= scale.high; ++decade) {
    const double value = std::pow(10, decade), x = scale.x(value), y = scale.y(value);
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0} {5:.1f}H{1}M{4:.1f} {2}V{3}\"/><text class=\"faint\" x=\"{6}\" "
        "y=\"{7:.1f}\" "
        "text-anchor=\"end\">{9:g}</text><text class=\"faint\" x=\"{4:.1f}\" y=\"{8}\" "
        "text-anchor=\"middle\">{9:g}</text>\n",
        scatter_left, scatter_right, scatter_top, scatter_bottom, x, y, scatter_left - 5, y + 4,
        scatter_bottom + 16, value);
  }
  return svg + fmt::format(
                   "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">{2}</text><text x=\"0\" y=\"0\" "
                   "text-anchor=\"middle\" transform=\"translate(14 {3}) rotate(-90)\">{4}</text>\n",
                   (scatter_left + scatter_right) / 2, scatter_bottom + 34, html_escaped(plot.x_axis),
                   (scatter_top + scatter_bottom) / 2, html_escaped(plot.y_axis));
}

// y = factor x, within the drawing area.
std::string ray(const LogScale& scale, double factor) {
  const double low = std::pow(10, scale.low), high = std::pow(10, scale.high);
  const double from = std::max(low, low / factor), to = std::min(high, high / factor);
  return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n",
                     factor == 1 ? "ideal" : "grid", scale.x(from), scale.y(from * factor), scale.x(to),
                     scale.y(to * factor));
}

std::string drawn(const ScatterPoint& point, const LogScale& scale) {
  if (!is_scattered(point)) return "";
  const std::string mark = fmt::format("<g><title>{}</title>{}</g>", html_escaped(point.title),
                                       marker(point.series, scale.x(point.x), scale.y(point.y)));
  return point.link.empty() ? mark + "\n"
                            : fmt::format("<a href=\"{}\">{}</a>\n", html_escaped(point.link), mark);
}

std::string series_legend(const std::vector<std::string>& series) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t s = 0; s < series.size(); ++s)
    html += fmt::format(
        "<li><svg viewBox=\"0 0 12 12\" style=\"width:12px\" aria-hidden=\"true\">{}</svg> {}</li>\n",
        marker(s, 6, 6), html_escaped(series[s]));
  return html + "</ul>\n";
}

}  // namespace

std::string scatter_plot(const ScatterPlot& plot) {
  if (std::ranges::none_of(plot.points, is_scattered)) return "";
  const LogScale scale = scale_of(plot.points);
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 640 620\" style=\"width:640px\" role=\"img\"><title>{}</title>\n",
                  html_escaped(plot.title));
  svg += axes(plot, scale) + ray(scale, 1) + ray(scale, 1.2) + ray(scale, 1 / 1.2);
  for (const ScatterPoint& point : plot.points) svg += drawn(point, scale);
  return "<div class=\"plots\">\n" + svg + "</svg>\n</div>\n" + series_legend(plot.series);
}

}  // namespace simrun
