#pragma once

#include <string>
#include <utility>
#include <vector>

#include "configs/load_job.h"
#include "validation/measured_row.h"

namespace simrun {

inline LoadOptions source_presets() { return {{}, {std::string(SIMRUN_SOURCE_DIR) + "/configs"}}; }

// A row of Korthikanti et al.'s 22B on one DGX A100, with some cells changed.
inline MeasuredRow measured_row(const std::vector<std::pair<Column, std::string>>& cells = {}) {
  MeasuredRow row;
  const std::vector<std::pair<Column, std::string>> usual{{Column::id, "test-0001"},
                                                          {Column::source, "a source of no rule"},
                                                          {Column::hardware, "A100-SXM-80GB (DGX A100)"},
                                                          {Column::gpus_per_node, "8"},
                                                          {Column::n_gpus, "8"},
                                                          {Column::model, "GPT 22B"},
                                                          {Column::layers, "8"},
                                                          {Column::hidden, "1024"},
                                                          {Column::heads, "16"},
                                                          {Column::seq_len, "1024"},
                                                          {Column::tp, "2"},
                                                          {Column::pp, "2"},
                                                          {Column::micro_batch, "1"},
                                                          {Column::global_batch, "8"},
                                                          {Column::precision, "bf16"},
                                                          {Column::measured_metric, "iter_time_s"},
                                                          {Column::measured_value, "0.5"}};
  for (const auto& [column, value] : usual) row[column] = value;
  for (const auto& [column, value] : cells) row[column] = value;
  return row;
}

}  // namespace simrun
