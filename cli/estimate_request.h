#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "configs/load_job.h"
#include "validation/error_bands.h"

namespace simrun {

// A job that an estimate may start from, as it was when the server started.
struct EstimateBase {
  std::string name;
  std::string file;  // names it in messages and anchors its `from:` paths
  std::string text;
};

// What estimates are made of besides their request.
struct EstimateSources {
  std::vector<EstimateBase> bases;  // a request that names none means the first
  LoadOptions load;
  std::vector<ErrorBand> bands;  // of the presets
};

// A base with some of its values replaced.
struct EstimateRequest {
  std::size_t base = 0;
  std::vector<Override> values;
};

// Reads {"base": NAME, "set": {"training.seq_length": "8192", ...}}; both keys may be missing. Keys are those
// of the form (cli/estimate_form.h) and the numbers of the model; a value is a number, a word or the name of
// a preset, so that a request can name no file. Throws ConfigError with everything that is wrong; each
// position's file is the key.
EstimateRequest read_estimate_request(const EstimateSources& sources, const std::string& body);

// The YAML of the job that is asked for. Without values it is the base's own text.
std::string job_text_of(const EstimateSources& sources, const EstimateRequest& request);

}  // namespace simrun
