#pragma once

#include <optional>
#include <string>

#include "traces/compare_imported.h"
#include "traces/imported_run.h"

namespace simrun {

// What an import tells. `is_compared`: with what was predicted.
struct ImportReport {
  const ImportedRun& run;
  ImportedComparison comparison;
  bool is_compared = false;
  std::vector<std::string> files;
};

// The step and the kernels that it has, predicted beside measured; kernels that are not known; notes.
std::string import_text(const ImportReport& report);
// Of it the tables: the comparison, exchanges, kernels that are not known; and the notes, a line each.
std::string import_tables(const ImportReport& report);
std::string import_notes(const ImportReport& report);

// {"format", "device", "world_size", "events", "files", "ranks": [{"rank", "step", "steps", "step_s",
// "kernels"}, ...],
//  "step": ROW, "by_kind": [ROW, ...], "by_phase", "by_time",
//  "exchanges": [{"collective", "ranks", "bytes", "count", "median_s", "total_s", "bus_bandwidth"}, ...],
//  "unknown": [{"name", "count", "seconds"}, ...], "notes": [{"what", "count", "first"}, ...]}, ROW as
//  visualizer/measured_table.h has it.
std::string import_json(const ImportReport& report);

}  // namespace simrun
