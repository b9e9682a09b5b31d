#pragma once

#include <optional>
#include <string>
#include <vector>

namespace simrun {

// Whether a word of the command line names a job rather than a Plan.
bool is_job_name(const std::string& path);

// How many jobs are named, and whether one of them is meant to be --json's: "" or what is wrong. `plan`:
// --plan's own word, if it is given.
std::string fault_of_inputs(const std::vector<std::string>& inputs, bool json,
                            const std::optional<std::string>& plan);

}  // namespace simrun
