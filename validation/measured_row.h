#pragma once

#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "configs/diagnostics.h"

namespace simrun {

inline bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The columns of a file of published measurements, one row per (configuration, metric). An empty cell was not
// printed by the source.
enum class Column : std::uint8_t {
  id,
  source,
  hardware,
  gpus_per_node,
  intra_link,
  inter_link,
  n_gpus,
  model,
  layers,
  hidden,
  heads,
  kv_heads,
  ffn_hidden,
  vocab,
  seq_len,
  n_experts,
  topk,
  precision,
  tp,
  pp,
  vpp,
  dp,
  cp,
  ep,
  sp,
  zero_stage,
  micro_batch,
  global_batch,
  recompute,
  schedule,
  flash_attention,
  measured_metric,
  measured_value,
  flops_definition,
  notes
};
constexpr std::size_t column_count = static_cast<std::size_t>(Column::notes) + 1;
const std::array<const char*, column_count>& column_names();
std::optional<Column> column_named(const std::string& name);

struct MeasuredRow {
  int line = 0;                                 // in the file, from 1
  std::array<std::string, column_count> cells;  // without spaces around
  std::string fault;                            // why the row cannot be read, or ""

  const std::string& operator[](Column column) const { return cells[static_cast<std::size_t>(column)]; }
  std::string& operator[](Column column) { return cells[static_cast<std::size_t>(column)]; }
  // Nothing where the cell is empty or no whole number (number: no finite decimal).
  std::optional<std::int64_t> integer(Column column) const;
  std::optional<double> number(Column column) const;
};

struct MeasuredFile {
  std::vector<MeasuredRow> rows;
  std::vector<std::string> unused_columns;  // that the header has besides
};

// The rows of a CSV in that schema, columns in any order; an `mfu` of 0.55 is 55 (%). A row that is broken is
// kept with its fault. Throws ConfigError where the header lacks a column or has one twice, or there is none.
MeasuredFile read_measured_rows(const std::string& text, const std::string& file);

}  // namespace simrun
