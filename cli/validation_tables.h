#pragma once

#include <string>
#include <vector>

#include "validation/scores.h"

namespace simrun {

// For people: rows, scored rows and errors by source, memory, rankings, what fits, why rows are unscored.
std::string validation_text(const ValidationScores& scores, const std::vector<ValidatedRow>& rows,
                            const std::vector<std::string>& unused_columns);

// For spreadsheets, a line per row in the order of the file: id, source, group (its short name), set, run,
// counts (1: in the score), metric, measured_value, predicted, error, status, why, assumed, fits, then what
// the step is made of. RFC 4180 quotes; numbers as the shortest text that reads back to the same double.
std::string validation_csv(const std::vector<ValidatedRow>& rows);

}  // namespace simrun
