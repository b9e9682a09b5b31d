#include "cli/validation_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "visualizer/csv_text.h"
#include "visualizer/json.h"

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

ValidationTable error_table(const std::string& title, const ValidationScores& scores,
                            ErrorStatistics SourceScore::*of) {
  ValidationTable table{
      {{title, "rows", "scored", "MAPE %", "median %", "bias %", "p90 %", "unscored=100 %"}}};
  for (const SourceScore& source : scores.sources)
    if ((source.*of).rows > 0) table.rows.push_back(error_cells(source.source, source.*of));
  if ((scores.overall.*of).rows > 0) table.rows.push_back(error_cells("all rows", scores.overall.*of));
  for (const auto& [set, score] : scores.apart)
    if ((score.*of).rows > 0) table.rows.push_back(error_cells("apart: " + set, score.*of));
  return table;
}

ValidationTable sweep_table(const ValidationScores& scores) {
  ValidationTable table{{{"sweep", "runs", "Spearman", "best in top 3"}}};
  for (const SweepScore& sweep : scores.sweeps)
    table.rows.push_back({sweep.source + ": " + sweep.name, fmt::format("{}", sweep.runs),
                          sweep.spearman ? fmt::format("{:.3f}", *sweep.spearman) : "-",
                          sweep.finds_best ? "yes" : "no"});
  if (scores.sweeps.empty()) return table;
  const auto found = std::ranges::count(scores.sweeps, true, &SweepScore::finds_best);
  table.rows.push_back({"all sweeps", fmt::format("{}", scores.sweeps.size()),
                        scores.overall.spearman ? fmt::format("{:.3f}", *scores.overall.spearman) : "-",
                        fmt::format("{}", found)});
  return table;
}

ValidationTable repeat_table(const RepeatScore& repeats) {
  ValidationTable table{{{"jobs measured more than once", "runs", "best single prediction %", "ours %"}}};
  if (repeats.jobs > 0)
    table.rows.push_back({fmt::format("{}", repeats.jobs), fmt::format("{}", repeats.runs),
                          percent(repeats.least_mape), percent(repeats.mape)});
  return table;
}

ValidationTable fits_table(const FitConfusion& fits) {
  const auto count = [](std::size_t number) { return fmt::format("{}", number); };
  return {{{"configurations", "predicted to fit", "predicted not to fit"},
           {"ran", count(fits.ran_fits), count(fits.ran_not)},
           {"out of memory", count(fits.oom_fits), count(fits.oom_not)},
           {"failed or crashed", count(fits.failed_fits), count(fits.failed_not)}}};
}

ValidationTable reasons_table(const ValidationScores& scores) {
  std::vector<std::pair<std::size_t, std::string>> sorted;
  for (const auto& [why, count] : scores.reasons) sorted.emplace_back(count, why);
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto& reason) { return reason.first; });
  ValidationTable table{{{"unscored because", "rows"}}};
  for (const auto& [count, why] : sorted) table.rows.push_back({why, fmt::format("{}", count)});
  return table;
}

std::string number(double value) { return fmt::format("{}", value); }
std::string number(const std::optional<double>& value) { return value ? number(*value) : ""; }

std::string number_or_null(std::size_t of, double value) { return of > 0 ? number(value) : "null"; }

std::string error_json(const ErrorStatistics& errors) {
  return fmt::format(
      "{{\"rows\": {}, \"scored\": {}, \"mape\": {}, \"median\": {}, \"bias\": {}, \"p90\": {}, "
      "\"honest_mape\": {}}}",
      errors.rows, errors.scored(), errors.mape, errors.median, errors.bias, errors.p90, errors.honest_mape);
}

// Of the fullest GPU: what nvidia-smi shows, or the live bytes where no framework is known.
std::int64_t most_held(const Summary& summary) {
  std::int64_t most = 0;
  for (const StageSummary& stage : summary.stages)
    most = std::max(most, stage.held ? stage.held->device_bytes : stage.peak_memory_bytes);
  return most;
}

TextRow step_cells(const ValidatedRow& row) {
  if (row.status != RowStatus::scored) return TextRow(14);
  const Summary& summary = row.simulated->summary;
  const auto exposed = [&](Traffic traffic) {
    return number(summary.exposed_by_traffic_s[static_cast<std::size_t>(traffic)]);
  };
  return {summary.fits && summary.host_fits ? "1" : "0",
          number(static_cast<double>(summary.peak_memory_bytes) / 0x1p30),
          number(static_cast<double>(most_held(summary)) / 0x1p30),
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

std::vector<ValidationTable> validation_tables(const ValidationScores& scores) {
  std::vector<ValidationTable> tables{error_table("time", scores, &SourceScore::time),
                                      error_table("memory", scores, &SourceScore::memory),
                                      sweep_table(scores),
                                      repeat_table(scores.repeats),
                                      fits_table(scores.fits),
                                      reasons_table(scores)};
  std::erase_if(tables, [](const ValidationTable& table) { return table.rows.size() < 2; });
  return tables;
}

std::string validation_headline(const ValidationScores& scores, const std::vector<ValidatedRow>& rows) {
  const auto scored = std::ranges::count(rows, RowStatus::scored, &ValidatedRow::status);
  std::string means;
  const auto add = [&](const char* what, ErrorStatistics SourceScore::*of, double mean) {
    if (std::ranges::any_of(scores.sources, [&](const SourceScore& source) { return (source.*of).rows > 0; }))
      means += fmt::format("{}{} {} %", means.empty() ? "" : ", ", what, percent(mean));
  };
  add("time", &SourceScore::time, scores.headline_time);
  add("memory", &SourceScore::memory, scores.headline_memory);
  return fmt::format("{} of {} rows scored.{}", scored, rows.size(),
                     means.empty() ? "" : " Mean over sources, an unscored row at 100 %: " + means + ".");
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
                              "device_gib",
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

std::string validation_json(const ValidationScores& scores) {
  std::string json = fmt::format("{{\n  \"headline_time\": {}, \"headline_memory\": {},\n  \"sources\": {{",
                                 scores.headline_time, scores.headline_memory);
  const auto entry = [&](const std::string& name, const SourceScore& score) {
    json += fmt::format("{}\n    {}: {{\"time\": {}, \"memory\": {}}}", json.back() == '{' ? "" : ",",
                        json_quoted(name), error_json(score.time), error_json(score.memory));
  };
  for (const SourceScore& source : scores.sources) entry(source.source, source);
  json += "\n  },\n  \"overall\": {";
  entry("all", scores.overall);
  json += "\n  },\n  \"apart\": {";
  for (const auto& [set, score] : scores.apart) entry(set, score);
  json += "\n  },\n  \"sweeps\": [";
  for (const SweepScore& sweep : scores.sweeps)
    json += fmt::format(
        "{}\n    {{\"source\": {}, \"name\": {}, \"runs\": {}, \"spearman\": {}, \"finds_best\": {}}}",
        json.back() == '[' ? "" : ",", json_quoted(sweep.source), json_quoted(sweep.name), sweep.runs,
        sweep.spearman ? number(*sweep.spearman) : "null", sweep.finds_best);
  json +=
      fmt::format("\n  ],\n  \"repeats\": {{\"jobs\": {}, \"runs\": {}, \"least_mape\": {}, \"mape\": {}}},",
                  scores.repeats.jobs, scores.repeats.runs,
                  number_or_null(scores.repeats.jobs, scores.repeats.least_mape),
                  number_or_null(scores.repeats.jobs, scores.repeats.mape));
  const FitConfusion& fits = scores.fits;
  json += fmt::format(
      "\n  \"fits\": {{\"ran\": [{}, {}], \"out_of_memory\": [{}, {}], \"failed\": [{}, {}]}},\n  "
      "\"unscored\": {{",
      fits.ran_fits, fits.ran_not, fits.oom_fits, fits.oom_not, fits.failed_fits, fits.failed_not);
  for (const auto& [why, count] : scores.reasons)
    json += fmt::format("{}\n    {}: {}", json.back() == '{' ? "" : ",", json_quoted(why), count);
  return json + "\n  }\n}\n";
}

}  // namespace simrun
