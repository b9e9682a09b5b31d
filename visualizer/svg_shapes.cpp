#include "visualizer/svg_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "visualizer/page_tables.h"

namespace simrun {

void SvgShapes::box(const Box& at, const std::string& text, const char* box_class) {
  boxes_ += fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"3\"/>\n",
      box_class, at.x - at.width / 2, at.y, at.width, at.height);
  if (!text.empty()) this->text(at.x, at.y + at.height / 2 + 4, text, "middle");
}

void SvgShapes::line(double x1, double y1, double x2, double y2, double width) {
  wires_ += fmt::format(
      "<line class=\"wire\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
      "stroke-width=\"{:.1f}\"/>\n",
      x1, y1, x2, y2, width);
}

void SvgShapes::arc(double x1, double x2, double y, double rise) {
  wires_ += fmt::format(
      "<path class=\"wire\" fill=\"none\" d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
      "{:.1f}\"/>\n",
      x1, y, x1, y - rise, x2, y - rise, x2, y);
}

void SvgShapes::wire(const Box& from, const Box& to, double width) {
  line(from.x, from.bottom(), to.x, to.y, width);
}

void SvgShapes::text(double x, double y, const std::string& text, const char* anchor) {
  boxes_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                        html_escaped(text));
}

std::string SvgShapes::drawn(double width, double height, const std::string& alternative) const {
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" style=\"width: {0:.0f}px; max-width: 100%\" role=\"img\" "
      "aria-label=\"{2}\">\n{3}{4}</svg>\n",
      width, height, html_escaped(alternative), wires_, boxes_);
}

SvgRow svg_row(std::int64_t count, std::size_t most, double left, double right, double y) {
  SvgRow row;
  row.is_cut = count > static_cast<std::int64_t>(most);
  const std::size_t shown = row.is_cut ? most : static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  const double step = shown == 0 ? 0 : (right - left) / static_cast<double>(shown);
  for (std::size_t i = 0; i < shown; ++i)
    row.boxes.push_back({left + (static_cast<double>(i) + 0.5) * step, y, std::min(step * 0.84, 150.0)});
  return row;
}

}  // namespace simrun
