#pragma once

#include <string>
#include <vector>

namespace simrun {

// What a preset's unknown name may have meant: "did you mean 'llama2-70b' or 'llama3-70b'?" of the candidates
// with the name's words, else with them and others, whatever stands between them, their order and their case
// (llama-70b, h100_dgx), else of the nearest spelling, else of those whose words are all in the name
// (meta-llama/Meta-Llama-3-8B-Instruct). Folders and .yaml or .json do not count. "" where none is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace simrun
