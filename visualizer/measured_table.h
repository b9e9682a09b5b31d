#pragma once

#include <string>

#include "schedules/measured_comparison.h"

namespace simrun {

// "kind and phase: sums over 4 GPUs\n"; "" of one.
std::string sums_note(const MeasuredComparison& comparison);

// A few lines: kinds and phases with predicted and measured seconds and the error of the prediction.
std::string measured_table(const MeasuredComparison& comparison);

// {"step": ROW, "gpus": NUMBER, "by_kind": [ROW, ...], "by_phase": [ROW, ...]}, ROW = {"name", "predicted_s",
// "measured_s", "error", "instructions"}.
std::string measured_json(const MeasuredComparison& comparison);

}  // namespace simrun
