#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/load_job.h"
#include "validation/link_text.h"
#include "validation/measured_row.h"

namespace simrun {

// A rule of configs/validation/*.yaml: what follows from words in one column of a measured row.
struct RowRule {
  std::string name;
  // Any of these patterns in the text (validation/text_pattern.h); values of the rule repeat what was
  // captured as '{}'.
  std::vector<std::string> match;
  std::vector<std::string> unless;  // none of these in the text
  // Of notes.yaml and frameworks.yaml: only of rows whose cells, as the file has them, are such. "16+": a
  // number of at least 16; "16": that very one; "absent": the cell is empty; else a pattern as in `match`.
  std::vector<std::pair<Column, std::string>> where;
  std::string reason;                                    // where that is known from
  std::vector<std::pair<Column, std::string>> cells;     // of empty cells
  std::vector<std::pair<std::string, std::string>> job;  // dotted keys of the job, as YAML
  std::map<std::string, std::string> facts;              // what is neither: see fact_names() in the .cpp
  SourcePosition position = {};                          // of its name
};

// Whether the row's cells are as the rule's `where` asks.
bool holds_where(const RowRule& rule, const MeasuredRow& row);

// The rule with '{}' replaced, if it matches.
std::optional<RowRule> applied(const RowRule& rule, const std::string& text);
// The same of notes, in which what is denied does not count as said.
std::optional<RowRule> applied_to_notes(const RowRule& rule, const std::string& notes);
std::optional<RowRule> first_applied(const std::vector<RowRule>& rules, const std::string& text);

// Rules by the column that they read; of each file but notes the first that matches holds, of notes all do.
// Those of hardware are for hardware_words() of the cell.
struct RowRules {
  std::vector<RowRule> sources, hardware, models, flops, notes;
  std::vector<RowRule> peaks;  // of the words of flops_definition and notes: what an MFU is a share of
  // Of rows for which no rule of the others names a framework; read in the words of source and notes.
  std::vector<RowRule> frameworks;
  std::vector<LinkGeneration> links;  // read in inter_link
};

// Reads validation/*.yaml in the first preset directory that has them. Throws ConfigError with every problem.
RowRules load_row_rules(const LoadOptions& options);

}  // namespace simrun
