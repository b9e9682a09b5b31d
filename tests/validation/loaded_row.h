#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/validation/rows.h"
#include "validation/row_job.h"

namespace simrun {

using Cells = std::vector<std::pair<Column, std::string>>;

struct LoadedRow {
  RowJob made;
  Job job;
};

// measured_row() with those cells as a job, by the rules of configs/validation.
inline LoadedRow load_row(const Cells& cells, const SizeGuess& guess = {}) {
  static const LoadOptions options = source_presets();
  static const RowRules rules = load_row_rules(options);
  KnownPresets presets(options);
  LoadedRow loaded{job_of_row(measured_row(cells), rules, presets, guess), {}};
  loaded.job = load_job_text(loaded.made.job.yaml(), "row.yaml", options).job;
  return loaded;
}

inline bool assumes(const RowJob& made, const std::string& what) {
  return std::ranges::find(made.assumed, what) != made.assumed.end();
}

}  // namespace simrun
