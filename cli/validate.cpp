#include "cli/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/console.h"
#include "cli/measured_file.h"
#include "cli/outputs.h"
#include "cli/validation_page.h"
#include "cli/validation_tables.h"
#include "configs/diagnostics.h"
#include "configs/load_job.h"
#include "validation/error_bands.h"
#include "validation/scores.h"
#include "validation/validate.h"

namespace simrun {
namespace {

std::string report_of(const ValidationScores& scores, const std::vector<ValidatedRow>& rows,
                      const MeasuredFile& file) {
  std::string text;
  for (const ValidationTable& table : validation_tables(scores)) text += text_table(table.rows, {0}) + "\n";
  if (!file.unused_columns.empty())
    text += fmt::format("Columns without a meaning here: {}.\n", fmt::join(file.unused_columns, ", "));
  return text + validation_headline(scores, rows) + "\n";
}

// What jobs that name no framework are worth is known from the same rows without theirs.
std::string bands_text(const MeasuredFile& file, std::vector<ValidatedRow> rows, const Options& options,
                       const LoadOptions& load) {
  std::vector<ValidatedRow> bare = validate_rows(
      file.rows, {.load = load, .engine = EngineChoice::fast, .threads = 0, .without_frameworks = true});
  rows.insert(rows.end(), std::make_move_iterator(bare.begin()), std::make_move_iterator(bare.end()));
  return error_bands_yaml(error_bands(rows),
                          std::filesystem::path(*options.validate.rows).filename().string());
}

bool is_scored(const ValidatedRow& row) { return row.status == RowStatus::scored; }

// Throws ConfigError where no job takes a --set that is the mistake: the first that is a job without.
void require_accepted_overrides(const std::vector<ValidatedRow>& rows, const LoadOptions& load) {
  if (load.overrides.empty()) return;
  LoadOptions without = load;
  without.overrides.clear();
  for (const ValidatedRow& row : rows) {
    if (row.yaml.empty()) continue;
    try {
      load_job_text(row.yaml, row.row[Column::id], without);
    } catch (const ConfigError&) {
      continue;
    }
    load_job_text(row.yaml, row.row[Column::id], load);
    return;
  }
}

}  // namespace

int run_validate(const Options& options, const LoadOptions& load) {
  const std::string& path = *options.validate.rows;
  const MeasuredFile file = read_measured_file(path, options.validate.filters, load);
  std::vector<std::string> outputs;
  for (const std::optional<std::string>& output : {options.html, options.csv, options.validate.bands})
    if (output) outputs.push_back(*output);
  probe_outputs(outputs, {path});

  const EngineChoice engine = options.engine == EngineChoice::automatic ? EngineChoice::fast : options.engine;
  const std::vector<ValidatedRow> rows = validate_rows(file.rows, {load, engine, 0, false});
  const bool any = std::ranges::any_of(rows, is_scored);
  if (!any) require_accepted_overrides(rows, load);
  const ValidationScores scores = score_rows(rows);
  std::string wrote;
  if (options.html) wrote += write_reported(*options.html, validation_page(scores, rows));
  if (options.csv) wrote += write_reported(*options.csv, validation_csv(rows));
  if (options.validate.bands && any)
    wrote += write_reported(*options.validate.bands, bands_text(file, rows, options, load));
  if (options.json)
    print(validation_json(scores));
  else if (!options.quiet)
    print(report_of(scores, rows, file) + wrote);
  if (!any) complain("simrun: error: no row could be scored\n");
  if (!any && options.validate.bands)
    complain(fmt::format("  hint: {} is as it was.\n", *options.validate.bands));
  return any ? 0 : 2;
}

}  // namespace simrun
