#pragma once

#include <string>

#include "cli/estimate_request.h"
#include "configs/config_node.h"
#include "configs/load_job.h"

namespace simrun {

// Whether the form has this key of a job. Beside these it has the numbers of the model.
bool is_form_key(const std::string& key);

// "models", "clusters" or "frameworks" for the keys whose values are names of presets, else "".
std::string preset_folder_of(const std::string& key);

// The form of a job as a JSON list, section by section: per key its value and what the loader accepts (a
// range of whole numbers, words, or true and false), and how a slider runs over it: by doublings, by ones, or
// by fractions and multiples of the first value ("relative") up to `top`. `root`: the job as it is written,
// which may be wrong.
std::string form_json(const JobKeys& job, const ConfigNode& root, const EstimateSources& sources);

}  // namespace simrun
