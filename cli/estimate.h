#pragma once

#include <string>

#include "cli/estimate_request.h"
#include "sim/simulate.h"

namespace simrun {

// The answer to a request, as JSON: {"job", "yaml", "form" (cli/estimate_form.h), "problems": [{"key",
// "message", "hint", "place"}]}, and where there are no problems also "summary" (what --json prints),
// "title", "numbers" and "tables" (HTML, of the page of a run), "timeline" (visualizer/page.h). `key` is that
// of the form or of the config, or "". Simulates with everything that the job asks for: how long that takes
// is the caller's to limit.
std::string estimate(const EstimateSources& sources, const EstimateRequest& request, EngineChoice engine);

// {"problems": [...]} of what is wrong with a request itself.
std::string refused_request_json(const ConfigError& error);

// {"yaml", "problems": [{...}]} of one sentence, about no key.
std::string refused_estimate_json(const std::string& yaml, const std::string& message,
                                  const std::string& hint);

}  // namespace simrun
