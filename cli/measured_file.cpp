#include "cli/measured_file.h"

#include <fmt/format.h>

#include <optional>

#include "configs/text_file.h"
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

}  // namespace

MeasuredFile read_measured_file(const std::string& path, const std::vector<std::string>& filters) {
  MeasuredFile file = read_file(path);
  file.rows = filtered(std::move(file.rows), read_filters(filters));
  return file;
}

}  // namespace simrun
