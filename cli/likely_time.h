#pragma once

#include <optional>
#include <vector>

#include "configs/load_job.h"
#include "schedules/plan.h"
#include "validation/error_bands.h"
#include "visualizer/likely_text.h"

namespace simrun {

// How far off predictions of such jobs are, from the presets' error bands; nothing without any. Throws
// ConfigError for a file of bands that is wrong.
std::optional<LikelyTime> likely_time(const Plan& plan, const LoadOptions& load, double step_time_s);

// The same with bands that were read before.
std::optional<LikelyTime> likely_time(const Plan& plan, const std::vector<ErrorBand>& bands,
                                      double step_time_s);

}  // namespace simrun
