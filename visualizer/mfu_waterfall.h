#pragma once

#include <string>
#include <vector>

#include "schedules/summary.h"

namespace simrun {

// One step down from the devices' peak to the model FLOPs utilisation, as shares of the peak: what is lost is
// `before - after`, and where one ends the next begins.
struct WaterfallStep {
  std::string name;
  std::string meaning;
  double before = 1, after = 1;
};

// From 1 to Summary::mfu: kernels that run below the peak (compute time less HFU), recompute (HFU less MFU),
// exposed communication, bubble, and imbalance among the bubble's causes. Because compute, bubble and exposed
// communication make the step, the losses and the MFU add up to 1. A step may go up: a plan that executes
// fewer FLOPs than the model counts has a recompute below zero. Empty where the peak is not known.
std::vector<WaterfallStep> mfu_waterfall(const Summary& summary);

// The same as HTML: bars, and a table of shares of the peak and of what they are of the step's time. The
// shares shown, too, add up: each is the difference of what is shown before and behind it.
std::string waterfall_html(const Summary& summary);

}  // namespace simrun
