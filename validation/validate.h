#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "validation/measured_row.h"
#include "validation/row_rules.h"
#include "validation/validated_row.h"

namespace simrun {

struct ValidateOptions {
  LoadOptions load;  // overrides hold for every job
  EngineChoice engine = EngineChoice::fast;
  unsigned threads = 0;             // 0: one per processor
  bool without_frameworks = false;  // as if no job named one
};

// Rows whose cell of each column has the value (as written, or a whole number equal to it); of the column
// source also those of the group that the tables print by that name.
std::vector<MeasuredRow> filtered(std::vector<MeasuredRow> rows,
                                  const std::vector<std::pair<Column, std::string>>& filters,
                                  const RowRules& rules = {});

// Every row as a job, simulated; equal jobs once. In the order of the rows, whatever the number of threads. A
// row that is broken, that no job can say or that the loader refuses is unscored, with why. Throws
// ConfigError only for rule files that are wrong.
std::vector<ValidatedRow> validate_rows(const std::vector<MeasuredRow>& rows, const ValidateOptions& options);

}  // namespace simrun
