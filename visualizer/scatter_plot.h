#pragma once

#include <string>
#include <vector>

namespace simrun {

// A point of a log-log plot; not drawn where a coordinate is not above 0.
struct ScatterPoint {
  double x = 0, y = 0;
  std::size_t series = 0;
  std::string title;  // shown on hover
  std::string link;   // "#job-1", or "" for none
};

struct ScatterPlot {
  std::string title, x_axis, y_axis;
  std::vector<std::string> series;
  std::vector<ScatterPoint> points;
};

// Inline SVG of points on two equal log scales, in the colour and shape of their series, with the line y = x
// and those of 20 % above and below, and a legend. A point is a link where it has one. "" without a point.
std::string scatter_plot(const ScatterPlot& plot);

}  // namespace simrun
