#include "visualizer/sweep_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "visualizer/csv_text.h"
#include "visualizer/json.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {

namespace {

struct RealField {
  const char* name;
  double SweepNumbers::*value;
};
struct IntegerField {
  const char* name;
  std::int64_t SweepNumbers::*value;
};
constexpr std::array<RealField, 2> rate_fields{
    {{"_per_s", &SweepNumbers::tokens_per_s}, {"_per_s_per_gpu", &SweepNumbers::tokens_per_s_per_gpu}}};
constexpr std::array<RealField, 7> real_fields{{{"mfu", &SweepNumbers::mfu},
                                                {"hfu", &SweepNumbers::hfu},
                                                {"compute_s", &SweepNumbers::compute_s},
                                                {"bubble_s", &SweepNumbers::bubble_s},
                                                {"bubble_fraction", &SweepNumbers::bubble_fraction},
                                                {"exposed_comm_s", &SweepNumbers::exposed_comm_s},
                                                {"hidden_comm_s", &SweepNumbers::hidden_comm_s}}};
constexpr std::array<RealField, 2> likely_fields{
    {{"likely_from_s", &SweepNumbers::likely_from_s}, {"likely_to_s", &SweepNumbers::likely_to_s}}};
constexpr std::array<IntegerField, 3> integer_fields{
    {{"ranks", &SweepNumbers::ranks},
     {"peak_memory_bytes", &SweepNumbers::peak_memory_bytes},
     {"memory_limit_bytes", &SweepNumbers::memory_limit_bytes}}};

bool all_count_images(const Sweep& sweep) {
  bool some = false;
  for (const SweepRow& row : sweep.rows) {
    if (row.numbers && !row.numbers->counts_images) return false;
    some = some || row.numbers;
  }
  return some;
}

std::string samples_of(const Sweep& sweep) {
  if (all_count_images(sweep)) return samples_word(true);
  const auto is_of_images = [](const SweepRow& row) { return row.numbers && row.numbers->counts_images; };
  return std::ranges::any_of(sweep.rows, is_of_images) ? "samples" : samples_word(false);
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string known(double value, const char* otherwise) { return value > 0 ? number(value) : otherwise; }

std::string last_words(const std::string& path, int words) {
  std::size_t dot = std::string::npos;
  for (int w = 0; w < words && dot != 0; ++w) {
    dot = path.rfind('.', dot == std::string::npos ? dot : dot - 1);
    if (dot == std::string::npos) return path;
  }
  return path.substr(dot + 1);
}

std::string row_json(const Sweep& sweep, const SweepRow& row) {
  std::string json = "{\"values\": {";
  for (std::size_t k = 0; k < sweep.keys.size(); ++k)
    json += fmt::format("{}{}: {}", k == 0 ? "" : ", ", json_quoted(sweep.keys[k].key),
                        json_quoted(row.values[k]));
  json += "}";
  if (row.numbers) {
    json += fmt::format(", \"step_time_s\": {}", number(row.numbers->step_time_s));
    for (const RealField& field : rate_fields)
      json += fmt::format(", \"{}{}\": {}", samples_word(row.numbers->counts_images), field.name,
                          number((*row.numbers).*field.value));
    for (const RealField& field : real_fields)
      json += fmt::format(", \"{}\": {}", field.name, number((*row.numbers).*field.value));
    for (const IntegerField& field : integer_fields)
      json += fmt::format(", \"{}\": {}", field.name, (*row.numbers).*field.value);
    for (const RealField& field : likely_fields)
      json += fmt::format(", \"{}\": {}", field.name, known((*row.numbers).*field.value, "null"));
    json += fmt::format(", \"fits\": {}, \"engine\": {}", row.numbers->fits, json_quoted(row.engine));
  }
  if (!row.error.empty()) json += ", \"error\": " + json_quoted(row.error);
  return json + "}";
}

}  // namespace

SweepNumbers sweep_numbers(const Summary& summary) {
  return {.counts_images = summary.counts_images,
          .step_time_s = summary.step_time_s,
          .tokens_per_s = summary.tokens_per_s,
          .tokens_per_s_per_gpu = summary.tokens_per_s_per_gpu,
          .mfu = summary.mfu,
          .hfu = summary.hfu,
          .compute_s = summary.compute_s,
          .bubble_s = summary.bubble_s,
          .bubble_fraction = summary.bubble_fraction,
          .exposed_comm_s = summary.exposed_comm_s,
          .hidden_comm_s = summary.hidden_comm_s,
          .ranks = summary.ranks,
          .peak_memory_bytes = summary.peak_memory_bytes,
          .memory_limit_bytes = summary.memory_limit_bytes,
          .fits = summary.fits};
}

std::optional<std::size_t> best_row(const Sweep& sweep) {
  std::optional<std::size_t> best;
  const auto rate = [&](std::size_t row) { return sweep.rows[row].numbers->tokens_per_s_per_gpu; };
  for (std::size_t r = 0; r < sweep.rows.size(); ++r)
    if (sweep.rows[r].numbers && sweep.rows[r].numbers->fits && (!best || rate(r) > rate(*best))) best = r;
  return best;
}

std::vector<std::string> short_keys(const std::vector<SweepKey>& keys) {
  for (int words = 1;; ++words) {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const SweepKey& key : keys) names.push_back(last_words(key.key, words));
    const std::set<std::string> different(names.begin(), names.end());
    const bool is_whole = std::ranges::equal(names, keys, {}, {}, &SweepKey::key);
    if (different.size() == names.size() || is_whole) return names;
  }
}

SweepUnits sweep_units(const Sweep& sweep) {
  std::vector<double> steps;
  std::vector<std::int64_t> peaks;
  for (const SweepRow& row : sweep.rows) {
    if (!row.numbers) continue;
    steps.push_back(row.numbers->step_time_s);
    peaks.push_back(row.numbers->peak_memory_bytes);
  }
  SweepUnits units{time_unit(0), memory_unit(0), samples_of(sweep)};
  if (steps.empty()) return units;
  const auto [shortest, longest] = std::ranges::minmax(steps);
  const auto [smallest, largest] = std::ranges::minmax(peaks);
  units.time = time_unit(longest);
  units.memory = memory_unit(largest);
  const double last_figure = std::pow(10.0, -units.time->decimals);
  if (shortest > 0 && shortest * units.time->per_second < 10 * last_figure) units.time.reset();
  if (smallest > 0 && smallest < units.memory->bytes) units.memory.reset();  // of one decimal
  return units;
}

std::vector<std::string> sweep_columns(const SweepUnits& units) {
  const auto named = [](const char* what, const auto& unit) {
    return unit ? std::string(what) + " " + unit->name : std::string(what);
  };
  return {named("step", units.time),
          units.samples + "/s/GPU",
          "MFU",
          "bubble",
          "exposed",
          named("peak", units.memory),
          "fits",
          "engine"};
}

std::vector<std::string> sweep_cells(const SweepRow& row, const SweepUnits& units) {
  if (!row.numbers) return {"refused: " + row.error};
  const SweepNumbers& numbers = *row.numbers;
  return {units.time ? in_unit(numbers.step_time_s, *units.time) : seconds_text(numbers.step_time_s),
          count_text(numbers.tokens_per_s_per_gpu),
          percent_text(numbers.mfu),
          percent_text(numbers.bubble_fraction),
          percent_text(numbers.exposed_comm_s / numbers.step_time_s),
          units.memory ? in_unit(numbers.peak_memory_bytes, *units.memory)
                       : memory_text(numbers.peak_memory_bytes),
          numbers.fits ? "yes" : "no",
          row.engine};
}

std::string sweep_table(const Sweep& sweep) {
  const SweepUnits units = sweep_units(sweep);
  TextRow header{""};
  for (const std::string& name : short_keys(sweep.keys)) header.push_back(name);
  for (const std::string& name : sweep_columns(units)) header.push_back(name);
  std::vector<TextRow> rows{header};
  const std::optional<std::size_t> best = best_row(sweep);
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    TextRow cells{r == best ? "*" : ""};
    cells.insert(cells.end(), sweep.rows[r].values.begin(), sweep.rows[r].values.end());
    for (const std::string& cell : sweep_cells(sweep.rows[r], units)) cells.push_back(cell);
    rows.push_back(std::move(cells));
  }
  const bool any =
      std::ranges::any_of(sweep.rows, [](const SweepRow& row) { return row.numbers.has_value(); });
  return text_table(rows, {0, header.size() - 1}) +
         (best  ? fmt::format("* most {} per second and GPU of those that fit\n", units.samples)
          : any ? "no point of the sweep fits\n"
                : "");
}

std::string sweep_csv(const Sweep& sweep) {
  std::vector<std::string> header;
  for (const SweepKey& key : sweep.keys) header.push_back(key.key);
  header.emplace_back("step_time_s");
  const bool images = all_count_images(sweep);
  for (const RealField& field : rate_fields) header.push_back(samples_word(images) + std::string(field.name));
  for (const RealField& field : real_fields) header.emplace_back(field.name);
  for (const IntegerField& field : integer_fields) header.emplace_back(field.name);
  for (const RealField& field : likely_fields) header.emplace_back(field.name);
  header.insert(header.end(), {"fits", "engine", "error"});
  std::string csv = csv_line(header);
  for (const SweepRow& row : sweep.rows) {
    std::vector<std::string> fields = row.values;
    fields.push_back(row.numbers ? fmt::format("{}", row.numbers->step_time_s) : "");
    for (const RealField& field : rate_fields)
      fields.push_back(row.numbers && row.numbers->counts_images == images
                           ? fmt::format("{}", (*row.numbers).*field.value)
                           : "");
    for (const RealField& field : real_fields)
      fields.push_back(row.numbers ? fmt::format("{}", (*row.numbers).*field.value) : "");
    for (const IntegerField& field : integer_fields)
      fields.push_back(row.numbers ? fmt::format("{}", (*row.numbers).*field.value) : "");
    for (const RealField& field : likely_fields)
      fields.push_back(row.numbers ? known((*row.numbers).*field.value, "") : "");
    fields.push_back(row.numbers ? fmt::format("{}", row.numbers->fits) : "");
    fields.insert(fields.end(), {row.engine, row.error});
    csv += csv_line(fields);
  }
  return csv;
}

std::string sweep_json(const Sweep& sweep) {
  std::string json = "[";
  for (std::size_t r = 0; r < sweep.rows.size(); ++r)
    json += (r == 0 ? "\n  " : ",\n  ") + row_json(sweep, sweep.rows[r]);
  return json + "\n]\n";
}

}  // namespace simrun
