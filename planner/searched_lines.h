#pragma once

#include <optional>
#include <string>
#include <utility>

#include "planner/estimate.h"
#include "planner/evaluate_candidate.h"

namespace simrun {

// A candidate with what is known of it as a line of text without its end: what searches tell one another, by
// file or from process to process. Numbers are read back to the bit.
std::string evaluated_line(const Candidate& candidate, const Evaluation& found);
std::string estimated_line(const Candidate& candidate, const Estimate& estimate);

// Nothing: it is no such line.
std::optional<std::pair<Candidate, Evaluation>> read_evaluated_line(const std::string& line);
std::optional<std::pair<Candidate, Estimate>> read_estimated_line(const std::string& line);

}  // namespace simrun
