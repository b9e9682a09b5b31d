#pragma once

#include <string>
#include <vector>

#include "visualizer/sweep_tables.h"

namespace simrun {

// Where the values of a key lie on an axis, 0 to 1. Numbers and quantities of one unit lie by size, on a log
// scale where every value is the same multiple of the one before; other values side by side.
struct ValueAxis {
  enum class Scale : std::uint8_t { linear, log, categories };
  Scale scale = Scale::categories;
  std::vector<double> at;  // by value
};
ValueAxis value_axis(const std::vector<std::string>& values);

// The sweep as inline SVG: step time, tokens per second and GPU, and MFU over the first key that has several
// values, one line for each combination of the others' (the first 24), with a legend. Lines differ in colour,
// dash and marker; a cross marks what does not fit, a cross on the axis what was refused. "" if no row has
// numbers.
std::string sweep_plot(const Sweep& sweep);

}  // namespace simrun
