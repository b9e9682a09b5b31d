#pragma once

#include <string>
#include <vector>

#include "schedules/alive_at_peak.h"

namespace simrun {

// A rectangle for each weight, in the weights' order, that together fill the whole: areas are as the weights,
// and sides as near to each other as rows of them allow. Weights must be > 0 and falling. Source: Bruls,
// Huizing, van Wijk, Squarified treemaps, 2000, section 3.
struct TreemapCell {
  double x = 0, y = 0, width = 0, height = 0;
};
std::vector<TreemapCell> squarified(const std::vector<double>& weights, const TreemapCell& whole);

// What is alive at the peak of one GPU as HTML: a rectangle per category, in it one per kind of tensor, and
// in that a strip per layer; and a table of the largest kinds. `where`: "pp 0". Empty if nothing is alive.
std::string peak_treemap(const std::vector<AliveTensors>& alive, const std::string& where);

}  // namespace simrun
