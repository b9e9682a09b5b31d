#include "cli/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/validation_page.h"
#include "cli/validation_tables.h"
#include "configs/text_file.h"
#include "validation/error_bands.h"
#include "validation/scores.h"
#include "validation/validate.h"

namespace simrun {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 28;

MeasuredFile read_file(const std::string& path) {
  const TextFile file = read_text_file(path, largest_file);
  if (!file.text) throw ConfigError({{{path, 0, 0}, "cannot read this file: " + file.reason, ""}});
  if (file.text->size() > largest_file) throw ConfigError({{{path, 0, 0}, "larger than 256 MiB", ""}});
  return read_measured_rows(*file.text, path);
}

std::vector<std::pair<Column, std::string>> read_filters(const std::vector<std::string>& written) {
  std::vector<Diagnostic> faults;
  std::vector<std::pair<Column, std::string>> filters;
  const std::vector<std::string> known(column_names().begin(), column_names().end());
  for (const std::string& filter : written) {
    const std::size_t equals = filter.find('=');
    const std::string name = filter.substr(0, equals);
    const std::optional<Column> column = column_named(name);
    const SourcePosition flag{"--filter " + filter, 0, 0};
    if (equals == std::string::npos) {
      faults.push_back({flag, "a filter is COLUMN=VALUE", "for example --filter model=LLaMA-13B."});
    } else if (!column) {
      const std::string meant = closest(name, known);
      faults.push_back({flag, fmt::format("there is no column '{}'", name),
                        meant.empty() ? "" : fmt::format("did you mean '{}'?", meant)});
    } else {
      filters.emplace_back(*column, filter.substr(equals + 1));
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return filters;
}

std::string report_of(const ValidationScores& scores, const std::vector<ValidatedRow>& rows,
                      const MeasuredFile& file) {
  std::string text;
  for (const ValidationTable& table : validation_tables(scores)) text += text_table(table.rows, {0}) + "\n";
  if (!file.unused_columns.empty())
    text += fmt::format("Columns without a meaning here: {}.\n", fmt::join(file.unused_columns, ", "));
  return text + validation_headline(scores, rows) + "\n";
}

}  // namespace

int run_validate(const Options& options, const LoadOptions& load) {
  const std::string& path = *options.validate.rows;
  const MeasuredFile file = read_file(path);
  const std::vector<MeasuredRow> measured = filtered(file.rows, read_filters(options.validate.filters));
  std::vector<std::string> outputs;
  for (const std::optional<std::string>& output : {options.html, options.csv, options.validate.bands})
    if (output) outputs.push_back(*output);
  probe_outputs(outputs, {path});

  const EngineChoice engine = options.engine == EngineChoice::automatic ? EngineChoice::fast : options.engine;
  const std::vector<ValidatedRow> rows = validate_rows(measured, {load, engine, 0});
  const ValidationScores scores = score_rows(rows);
  std::string wrote;
  if (options.html) wrote += write_reported(*options.html, validation_page(scores, rows));
  if (options.csv) wrote += write_reported(*options.csv, validation_csv(rows));
  if (options.validate.bands)
    wrote +=
        write_reported(*options.validate.bands,
                       error_bands_yaml(error_bands(rows), std::filesystem::path(path).filename().string()));
  if (options.json)
    print(validation_json(scores));
  else if (!options.quiet)
    print(report_of(scores, rows, file) + wrote);
  const bool any =
      std::ranges::any_of(rows, [](const ValidatedRow& row) { return row.status == RowStatus::scored; });
  if (!any) complain("simrun: error: no row could be scored\n");
  return any ? 0 : 2;
}

}  // namespace simrun
