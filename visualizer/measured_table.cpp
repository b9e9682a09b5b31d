#include "visualizer/measured_table.h"

#include <fmt/format.h>

#include <vector>

#include "visualizer/json.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {
namespace {

TextRow cells(const char* table, const ComparedTime& row) {
  const std::string error = row.measured_s > 0 ? fmt::format("{:+.1f} %", 100 * row.error()) : "";
  return {table,
          row.name,
          seconds_text(row.predicted_s),
          seconds_text(row.measured_s),
          error,
          fmt::format("{}", row.instructions)};
}

std::string json_of(const ComparedTime& row) {
  return fmt::format(
      "{{\"name\": {}, \"predicted_s\": {}, \"measured_s\": {}, \"error\": {}, \"instructions\": {}}}",
      json_quoted(row.name), row.predicted_s, row.measured_s,
      row.measured_s > 0 ? fmt::format("{}", row.error()) : "null", row.instructions);
}

std::string json_of(const std::vector<ComparedTime>& rows) {
  std::vector<std::string> items;
  items.reserve(rows.size());
  for (const ComparedTime& row : rows) items.push_back(json_of(row));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

std::string sums_note(const MeasuredComparison& comparison) {
  return comparison.gpus < 2 ? "" : fmt::format("kind and phase: sums over {} GPUs\n", comparison.gpus);
}

std::string measured_table(const MeasuredComparison& comparison) {
  std::vector<TextRow> rows{{"", "", "predicted", "measured", "error", "instructions"}};
  rows.push_back(cells(
      "step", {"", comparison.step.predicted_s, comparison.step.measured_s, comparison.step.instructions}));
  for (const ComparedTime& row : comparison.by_kind)
    rows.push_back(cells(&row == &comparison.by_kind.front() ? "kind" : "", row));
  for (const ComparedTime& row : comparison.by_phase)
    rows.push_back(cells(&row == &comparison.by_phase.front() ? "phase" : "", row));
  return text_table(rows, {0, 1}) + sums_note(comparison);
}

std::string measured_json(const MeasuredComparison& comparison) {
  return fmt::format("{{\"step\": {}, \"gpus\": {}, \"by_kind\": {}, \"by_phase\": {}}}",
                     json_of(comparison.step), comparison.gpus, json_of(comparison.by_kind),
                     json_of(comparison.by_phase));
}

}  // namespace simrun
