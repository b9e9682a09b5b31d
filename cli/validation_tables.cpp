#include "cli/validation_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "visualizer/csv_text.h"
#include "visualizer/text_table.h"

namespace simrun {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

TextRow error_cells(const std::string& name, const ErrorStatistics& errors) {
  TextRow cells{name, fmt::format("{}", errors.rows), fmt::format("{}", errors.scored())};
  if (errors.scored() == 0) return cells;
  for (const double share : {errors.mape, errors.median, errors.bias, errors.p90, errors.honest_mape})
    cells.push_back(percent(share));
  return cells;
}

const TextRow error_header = {"",         "rows",   "scored", "MAPE %",
                              "median %", "bias %", "p90 %",  "unscored=100 %"};

std::string error_table(const std::string& title, const ValidationScores& scores,
                        ErrorStatistics SourceScore::*of) {
  TextRow header = error_header;
  header.front() = title;
  std::vector<TextRow> table{header};
  for (const SourceScore& source : scores.sources)
    if ((source.*of).rows > 0) table.push_back(error_cells(source.source, source.*of));
  if (table.size() == 1) return "";
  table.push_back(error_cells("all rows", scores.overall.*of));
  for (const auto& [set, score] : scores.apart)
    if ((score.*of).rows > 0) table.push_back(error_cells("apart: " + set, score.*of));
  return text_table(table, {0}) + "\n";
}

std::string sweep_text(const ValidationScores& scores) {
  if (scores.sweeps.empty()) return "";
  std::vector<TextRow> table{{"sweeps of 8 runs or more", "runs", "Spearman", "best in top 3"}};
  std::size_t found = 0;
  for (const SweepScore& sweep : scores.sweeps) {
    found += sweep.finds_best ? 1 : 0;
    table.push_back({sweep.source + ": " + sweep.name, fmt::format("{}", sweep.runs),
                     sweep.spearman ? fmt::format("{:.3f}", *sweep.spearman) : "-",
                     sweep.finds_best ? "yes" : "no"});
  }
  return text_table(table, {0}) +
         fmt::format("mean Spearman {:.3f}; the measured best is among the predicted top 3 in {} of {}\n\n",
                     scores.overall.spearman.value_or(0), found, scores.sweeps.size());
}

std::string fits_text(const FitConfusion& fits) {
  const auto count = [](std::size_t number) { return fmt::format("{}", number); };
  const std::vector<TextRow> table{{"configurations", "predicted to fit", "predicted not to fit"},
                                   {"ran", count(fits.ran_fits), count(fits.ran_not)},
                                   {"out of memory", count(fits.oom_fits), count(fits.oom_not)},
                                   {"failed or crashed", count(fits.failed_fits), count(fits.failed_not)}};
  return text_table(table, {0}) + "\n";
}

std::string reasons_text(const ValidationScores& scores) {
  if (scores.reasons.empty()) return "";
  std::vector<std::pair<std::size_t, std::string>> sorted;
  for (const auto& [why, count] : scores.reasons) sorted.emplace_back(count, why);
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto& reason) { return reason.first; });
  std::vector<TextRow> table{{"rows", "unscored because"}};
  for (const auto& [count, why] : sorted) table.push_back({fmt::format("{}", count), why});
  return text_table(table, {1}) + "\n";
}

std::string number(double value) { return fmt::format("{}", value); }
std::string number(const std::optional<double>& value) { return value ? number(*value) : ""; }

TextRow step_cells(const ValidatedRow& row) {
  if (row.status != RowStatus::scored) return TextRow(13);
  const Summary& summary = row.simulated->summary;
  const auto exposed = [&](Traffic traffic) {
    return number(summary.exposed_by_traffic_s[static_cast<std::size_t>(traffic)]);
  };
  return {summary.fits && summary.host_fits ? "1" : "0",
          number(static_cast<double>(summary.peak_memory_bytes) / 0x1p30),
          number(summary.step_time_s),
          number(summary.tokens_per_s_per_gpu),
          number(summary.hardware_flops_per_step),
          number(summary.compute_s),
          number(summary.bubble_s),
          number(summary.exposed_comm_s),
          exposed(Traffic::tensor),
          exposed(Traffic::context),
          exposed(Traffic::expert),
          exposed(Traffic::data),
          exposed(Traffic::pipeline)};
}

}  // namespace

std::string validation_text(const ValidationScores& scores, const std::vector<ValidatedRow>& rows,
                            const std::vector<std::string>& unused_columns) {
  std::string text;
  if (!unused_columns.empty()) text += fmt::format("columns not used: {}\n", fmt::join(unused_columns, ", "));
  text += error_table("time", scores, &SourceScore::time);
  text += error_table("memory", scores, &SourceScore::memory);
  text += sweep_text(scores) + fits_text(scores.fits) + reasons_text(scores);
  const auto scored = std::ranges::count(rows, RowStatus::scored, &ValidatedRow::status);
  text += fmt::format(
      "{} of {} rows scored; headline, mean over sources with unscored rows at 100 %: time {} %, "
      "memory {} %\n",
      scored, rows.size(), percent(scores.headline_time), percent(scores.headline_memory));
  return text;
}

std::string validation_csv(const std::vector<ValidatedRow>& rows) {
  std::string csv = csv_line({"id",
                              "source",
                              "group",
                              "set",
                              "run",
                              "counts",
                              "metric",
                              "measured_value",
                              "predicted",
                              "error",
                              "status",
                              "why",
                              "assumed",
                              "fits",
                              "peak_gib",
                              "step_time_s",
                              "tokens_per_s_per_gpu",
                              "hardware_flops",
                              "compute_s",
                              "bubble_s",
                              "exposed_s",
                              "exposed_tp_s",
                              "exposed_cp_s",
                              "exposed_ep_s",
                              "exposed_dp_s",
                              "exposed_pp_s"});
  for (const ValidatedRow& row : rows) {
    TextRow cells{row.row[Column::id],
                  row.row[Column::source],
                  row.source,
                  row.set,
                  row.run,
                  row.counts ? "1" : "0",
                  row.row[Column::measured_metric],
                  row.row[Column::measured_value],
                  number(row.predicted),
                  number(row.error()),
                  row.status == RowStatus::scored ? "scored" : "unscored",
                  row.why,
                  fmt::format("{}", fmt::join(row.assumed, "; "))};
    for (std::string& cell : step_cells(row)) cells.push_back(std::move(cell));
    csv += csv_line(cells);
  }
  return csv;
}

}  // namespace simrun
