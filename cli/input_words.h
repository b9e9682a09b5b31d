#pragma once

#include <string>
#include <vector>

namespace simrun {

// Whether a word of the command line names a job rather than a Plan.
bool is_job_name(const std::string& path);

// Which jobs, and what the flags beside them make of those: "" or what is wrong. `json`: --json is given;
// `plan`: --plan is, with a word of its own.
std::string fault_of_inputs(const std::vector<std::string>& inputs, bool json, bool plan);

}  // namespace simrun
