#include "cli/measured_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "configs/text_file.h"
#include "validation/link_text.h"
#include "validation/row_job.h"
#include "validation/validate.h"

namespace simrun {
namespace {

constexpr std::size_t most_listed = 8;  // values of a column, in a hint
constexpr std::size_t largest_file = std::size_t{1} << 28;

// A first line that is no header lacks every column: told once.
std::vector<Diagnostic> told_once(std::vector<Diagnostic> faults) {
  const auto is_missing = [](const Diagnostic& fault) {
    return fault.message.starts_with("the header has no column ");
  };
  if (std::cmp_less(std::ranges::count_if(faults, is_missing), column_names().size())) return faults;
  const SourcePosition header = std::ranges::find_if(faults, is_missing)->position;
  std::erase_if(faults, is_missing);
  faults.push_back({header, "the first line names no column of a table of measurements",
                    fmt::format("its columns are {}.", fmt::join(column_names(), ", "))});
  return faults;
}

MeasuredFile read_file(const std::string& path) {
  const TextFile file = read_text_file(path, largest_file);
  if (!file.text) throw ConfigError({{{path, 0, 0}, "cannot read this file: " + file.reason, ""}});
  if (file.text->size() > largest_file) throw ConfigError({{{path, 0, 0}, "larger than 256 MiB", ""}});
  try {
    return read_measured_rows(*file.text, path);
  } catch (const ConfigError& error) {
    throw ConfigError(told_once(error.diagnostics()));
  }
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

// The value of that column that was meant, or those that there are.
std::string hint_of(const std::vector<MeasuredRow>& rows, Column column, const std::string& value,
                    const RowRules& rules) {
  std::set<std::string> values;
  for (const MeasuredRow& row : rows)
    values.insert(column == Column::source ? group_of(row, rules) : row[column]);
  values.erase("");
  const std::vector<std::string> sorted(values.begin(), values.end());
  if (const std::string meant = closest(value, sorted); !meant.empty())
    return fmt::format("did you mean '{}'?", meant);
  std::vector<std::string> near;
  const std::string small = lower_case(value);
  for (const std::string& one : sorted)
    if (lower_case(one).find(small) != std::string::npos) near.push_back(one);
  const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
  if (near.empty() || is_number) near = sorted;
  const bool are_many = near.size() > most_listed;
  near.resize(std::min(near.size(), most_listed));
  return near.empty() ? "no row has anything in it."
                      : fmt::format("there are {}{}.", fmt::join(near, ", "), are_many ? ", ..." : "");
}

}  // namespace

MeasuredFile read_measured_file(const std::string& path, const std::vector<std::string>& filters,
                                const LoadOptions& load) {
  MeasuredFile file = read_file(path);
  const auto conditions = read_filters(filters);
  if (conditions.empty()) return file;
  const RowRules rules = load_row_rules(load);
  for (std::size_t f = 0; f < conditions.size(); ++f) {
    std::vector<MeasuredRow> left = filtered(file.rows, {conditions[f]}, rules);
    const auto& [column, value] = conditions[f];
    if (left.empty() && !file.rows.empty())
      throw ConfigError({{{"--filter " + filters[f], 0, 0},
                          fmt::format("no row of {}{} has {} '{}'", path, f > 0 ? " that is left" : "",
                                      column_names()[static_cast<std::size_t>(column)], value),
                          hint_of(file.rows, column, value, rules)}});
    file.rows = std::move(left);
  }
  return file;
}

}  // namespace simrun
