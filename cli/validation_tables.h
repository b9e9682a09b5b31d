#pragma once

#include <string>
#include <vector>

#include "validation/scores.h"
#include "visualizer/text_table.h"

namespace simrun {

// The first row is the header, the first column the name of a row.
struct ValidationTable {
  std::vector<TextRow> rows;
};

// Errors of time and of memory by source, rankings, jobs that were measured more than once, what fits, why
// rows are unscored; for terminal and page. Empty ones are left out. Sources are the rows that are scored
// together; what is scored apart follows them.
std::vector<ValidationTable> validation_tables(const ValidationScores& scores);

// One sentence: how many rows are scored, and how far off they are.
std::string validation_headline(const ValidationScores& scores, const std::vector<ValidatedRow>& rows);

// For spreadsheets, a line per row in the order of the file: id, source, group (its short name), set, run,
// counts (1: in the score), metric, measured_value, predicted, error, status, why, assumed, fits, then what
// the step is made of. RFC 4180 quotes; numbers as the shortest text that reads back to the same double.
std::string validation_csv(const std::vector<ValidatedRow>& rows);

// For programs: the headline, the errors of every source, sweeps, what fits and why rows are unscored.
std::string validation_json(const ValidationScores& scores);

}  // namespace simrun
