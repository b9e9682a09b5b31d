#include "cli/import_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/bus_bandwidth.h"
#include "traces/imported_exchanges.h"
#include "visualizer/json.h"
#include "visualizer/measured_table.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {
namespace {

constexpr std::size_t most_unknown_listed = 10;
constexpr std::size_t most_exchanges_listed = 10;
constexpr std::size_t longest_name = 100;

TextRow cells(const ImportReport& report, const char* table, const ComparedTime& row) {
  TextRow cells{table, row.name};
  if (report.is_compared) cells.push_back(seconds_text(row.predicted_s));
  cells.push_back(seconds_text(row.measured_s));
  if (report.is_compared)
    cells.push_back(row.measured_s > 0 ? fmt::format("{:+.1f} %", 100 * row.error()) : "");
  cells.push_back(row.instructions > 0 ? fmt::format("{}", row.instructions) : "");
  return cells;
}

std::string ranks_text(const ImportedRun& run) {
  std::string text = run.ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    std::size_t last = r;
    while (last + 1 < run.ranks.size() && run.ranks[last + 1].rank == run.ranks[last].rank + 1) ++last;
    text += fmt::format("{}{}", r == 0 ? " " : ", ", run.ranks[r].rank);
    if (last > r) text += fmt::format("-{}", run.ranks[last].rank);
    r = last;
  }
  if (run.world_size > 0) text += fmt::format(" of {}", run.world_size);
  return text;
}

std::string place_text(const SourcePosition& at) {
  return at.line > 0 ? fmt::format("{}:{}:{}", at.file, at.line, at.column) : at.file;
}

std::string step_text(const ImportedRank& rank) {
  if (rank.steps.size() == 1)
    return fmt::format("one step of {}", seconds_text(static_cast<double>(rank.step.length_ns) * 1e-9));
  return fmt::format("step {}, of {} in the trace ({} to {}) the median behind the first", rank.step.number,
                     rank.steps.size(), rank.steps.front().number, rank.steps.back().number);
}

std::string unknown_text(const ImportReport& report) {
  const std::vector<UnknownKernel> unknown = unknown_kernels(report.run);
  if (unknown.empty()) return "";
  std::int64_t count = 0;
  for (const UnknownKernel& kernel : unknown) count += kernel.count;
  std::string text = fmt::format("{} kernel{} of {} name{} not known, counted as unknown:\n", count,
                                 count == 1 ? "" : "s", unknown.size(), unknown.size() == 1 ? "" : "s");
  std::vector<TextRow> rows{{"", "seconds", "count", "name"}};
  for (std::size_t i = 0; i < std::min(unknown.size(), most_unknown_listed); ++i)
    rows.push_back({"", seconds_text(unknown[i].seconds), fmt::format("{}", unknown[i].count),
                    unknown[i].name.substr(0, longest_name)});
  text += text_table(rows, {3});
  if (unknown.size() > most_unknown_listed)
    text += fmt::format("  and {} more names; --json lists all\n", unknown.size() - most_unknown_listed);
  return text;
}

// bytes/s as nccl-tests report them; 0 where the trace does not say among how many ranks.
double bus_bandwidth_of(const ImportedExchange& of) {
  if (of.ranks < 2 || of.median_s <= 0) return 0;
  return static_cast<double>(of.bytes) / of.median_s * bus_factor(of.opcode, static_cast<double>(of.ranks));
}

std::string exchange_text(const ImportReport& report) {
  const std::vector<ImportedExchange> exchanges = imported_exchanges(report.run);
  if (exchanges.empty()) return "";
  std::vector<TextRow> rows{{"exchange", "ranks", "bytes", "count", "median", "bus bandwidth"}};
  for (std::size_t i = 0; i < std::min(exchanges.size(), most_exchanges_listed); ++i) {
    const ImportedExchange& of = exchanges[i];
    const double bandwidth = bus_bandwidth_of(of);
    rows.push_back({to_string(of.opcode), of.ranks > 0 ? fmt::format("{}", of.ranks) : "",
                    fmt::format("{}", of.bytes), fmt::format("{}", of.count), seconds_text(of.median_s),
                    bandwidth > 0 ? bandwidth_text(bandwidth) : ""});
  }
  std::string text = text_table(rows, {0});
  if (exchanges.size() > most_exchanges_listed)
    text += fmt::format("and {} more; --json lists all\n", exchanges.size() - most_exchanges_listed);
  return text;
}

std::string exchange_json(const ImportedExchange& of) {
  return fmt::format(
      "{{\"collective\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"count\": {}, \"median_s\": {}, \"total_s\": "
      "{}, "
      "\"bus_bandwidth\": {}}}",
      to_string(of.opcode), of.ranks, of.bytes, of.count, of.median_s, of.total_s, bus_bandwidth_of(of));
}

std::string row_json(const ImportReport& report, const ComparedTime& row) {
  return fmt::format(
      "{{\"name\": {}, \"predicted_s\": {}, \"measured_s\": {}, \"error\": {}, \"instructions\": {}}}",
      json_quoted(row.name), report.is_compared ? fmt::format("{}", row.predicted_s) : "null", row.measured_s,
      report.is_compared && row.measured_s > 0 ? fmt::format("{}", row.error()) : "null", row.instructions);
}

template <typename Items, typename Item>
std::string list_json(const Items& items, const Item& item) {
  std::vector<std::string> texts;
  texts.reserve(items.size());
  for (const auto& i : items) texts.push_back(item(i));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string rank_json(const ImportedRank& rank) {
  return fmt::format(
      "{{\"rank\": {}, \"path\": {}, \"step\": {}, \"steps\": {}, \"step_s\": {}, \"kernels\": {}}}",
      rank.rank, json_quoted(rank.path), rank.step.number, rank.steps.size(),
      static_cast<double>(rank.step.length_ns) * 1e-9, rank.kernels.size());
}

std::string compared_table(const ImportReport& report) {
  std::vector<TextRow> rows;
  if (report.is_compared)
    rows.push_back({"", "", "predicted", "measured", "error", "kernels"});
  else
    rows.push_back({"", "", "measured", "kernels"});
  const auto add = [&](const char* table, const std::vector<ComparedTime>& of) {
    for (const ComparedTime& row : of) rows.push_back(cells(report, &row == of.data() ? table : "", row));
  };
  const ComparedTime& step = report.comparison.rows.step;
  rows.push_back(cells(report, "step", {"", step.predicted_s, step.measured_s, step.instructions}));
  add("time", report.comparison.by_time);
  add("kind", report.comparison.rows.by_kind);
  add("phase", report.comparison.rows.by_phase);
  return text_table(rows, {0, 1}) + sums_note(report.comparison.rows);
}

}  // namespace

std::string import_tables(const ImportReport& report) {
  return compared_table(report) + exchange_text(report) + unknown_text(report);
}

std::string import_notes(const ImportReport& report) {
  std::string text;
  for (const auto& [what, note] : report.run.notes)
    text += note.count == 1
                ? fmt::format("note: {} ({})\n", what, place_text(note.first))
                : fmt::format("note: {}: {} (first {})\n", what, note.count, place_text(note.first));
  return text;
}

std::string import_text(const ImportReport& report) {
  const ImportedRun& run = report.run;
  std::string text = fmt::format("imported {} file{} ({}), {}{}{} events\n", report.files.size(),
                                 report.files.size() == 1 ? "" : "s", to_string(run.origin), ranks_text(run),
                                 run.device.empty() ? ", " : ", " + run.device + ", ", run.events);
  return text + step_text(run.ranks.front()) + "\n" + import_tables(report) + import_notes(report);
}

std::string import_json(const ImportReport& report) {
  const ImportedRun& run = report.run;
  std::string json = "{";
  const auto add = [&](const char* key, const std::string& value) {
    json += fmt::format("{}\n  \"{}\": {}", json.size() == 1 ? "" : ",", key, value);
  };
  add("format", json_quoted(to_string(run.origin)));
  add("device", run.device.empty() ? "null" : json_quoted(run.device));
  add("world_size", run.world_size > 0 ? fmt::format("{}", run.world_size) : "null");
  add("events", fmt::format("{}", run.events));
  add("files", list_json(report.files, json_quoted));
  add("ranks", list_json(run.ranks, rank_json));
  add("compared", report.is_compared ? "true" : "false");
  const auto row = [&](const ComparedTime& of) { return row_json(report, of); };
  add("step", row(report.comparison.rows.step));
  add("by_time", list_json(report.comparison.by_time, row));
  add("gpus", fmt::format("{}", report.comparison.rows.gpus));
  add("by_kind", list_json(report.comparison.rows.by_kind, row));
  add("by_phase", list_json(report.comparison.rows.by_phase, row));
  add("exchanges", list_json(imported_exchanges(run), exchange_json));
  add("unknown", list_json(unknown_kernels(run), [](const UnknownKernel& kernel) {
        return fmt::format("{{\"name\": {}, \"count\": {}, \"seconds\": {}}}", json_quoted(kernel.name),
                           kernel.count, kernel.seconds);
      }));
  add("notes", list_json(run.notes, [](const auto& note) {
        return fmt::format("{{\"what\": {}, \"count\": {}, \"first\": {}}}", json_quoted(note.first),
                           note.second.count, json_quoted(place_text(note.second.first)));
      }));
  return json + "\n}\n";
}

}  // namespace simrun
