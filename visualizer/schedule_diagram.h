#pragma once

#include <string>

#include "visualizer/evaluated_schedule.h"

namespace simrun {

// How wide diagrams are that are read side by side: the work of a rank (its mean over ranks) takes `work` in
// all of them, so that what is longer is idle time.
struct DiagramScale {
  double work = 500;   // SVG units (CSS pixels at full size)
  double width = 720;  // of the drawing, room for the longest
};

// One lane per rank on the axis of time, in the colours of the page of a simulation; a rank's later stages
// and the second direction are lighter, an overlapped pair is its forward over its backward. A pass carries
// its microbatch where that fits. The dashed line is where a rank without idle time would end. Pure.
std::string schedule_diagram(const EvaluatedSchedule& schedule, const DiagramScale& scale);

// Boxes and their meaning, for above diagrams of these colours.
std::string diagram_legend();

}  // namespace simrun
