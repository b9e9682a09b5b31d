#pragma once

#include <optional>

#include "configs/load_job.h"
#include "schedules/plan.h"
#include "visualizer/likely_text.h"

namespace simrun {

// How far off predictions of such jobs are, from the presets' error bands; nothing without any. Throws
// ConfigError for a file of bands that is wrong.
std::optional<LikelyTime> likely_time(const Plan& plan, const LoadOptions& load, double step_time_s);

}  // namespace simrun
