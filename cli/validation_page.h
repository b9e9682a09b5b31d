#pragma once

#include <string>
#include <vector>

#include "validation/scores.h"

namespace simrun {

// A page of predicted against measured: step times (a measured throughput as the step that it means) and
// memory, coloured by source; every point leads to its row and the YAML of its job. Then the tables.
std::string validation_page(const ValidationScores& scores, const std::vector<ValidatedRow>& rows);

}  // namespace simrun
