#include "visualizer/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "visualizer/json.h"
#include "visualizer/page_tables.h"
#include "visualizer/plain_page.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {

namespace {

using Numbers = std::vector<ComparedNumber>;

void add_part(Numbers& numbers, ComparedNumber part) {
  part.is_part = true;
  if (part.a != 0 || part.b != 0) numbers.push_back(std::move(part));
}

void add_bubble(Numbers& numbers, const Summary& a, const Summary& b) {
  struct Cause {
    BubbleCause cause;
    const char* key;
  };
  constexpr std::array<Cause, bubble_cause_count> causes{{{BubbleCause::warm_up, "warm_up"},
                                                          {BubbleCause::drain, "drain"},
                                                          {BubbleCause::imbalance, "imbalance"},
                                                          {BubbleCause::p2p, "p2p"}}};
  numbers.push_back({"bubble_s", "bubble", NumberKind::seconds, false, a.bubble_s, b.bubble_s});
  for (const Cause& cause : causes) {
    const auto index = static_cast<std::size_t>(cause.cause);
    add_part(numbers, {std::string("bubble_by_cause_s.") + cause.key, short_name(cause.cause),
                       NumberKind::seconds, true, a.bubble_by_cause_s[index], b.bubble_by_cause_s[index]});
  }
}

void add_exposed(Numbers& numbers, const Summary& a, const Summary& b) {
  numbers.push_back({"exposed_comm_s", "exposed communication", NumberKind::seconds, false, a.exposed_comm_s,
                     b.exposed_comm_s});
  for (int t = static_cast<int>(Traffic::tensor); t < traffic_count; ++t) {
    const auto index = static_cast<std::size_t>(t);
    const char* name = short_name(static_cast<Traffic>(t));
    add_part(numbers, {std::string("exposed_by_traffic_s.") + name, name, NumberKind::seconds, true,
                       a.exposed_by_traffic_s[index], b.exposed_by_traffic_s[index]});
  }
}

// Live bytes of the worst rank at its peak.
double worst_memory(const Summary& summary, std::size_t category) {
  const auto rank = static_cast<std::size_t>(summary.peak_pipeline_rank);
  return rank < summary.stages.size() ? static_cast<double>(summary.stages[rank].memory[category]) : 0;
}

void add_memory(Numbers& numbers, const Summary& a, const Summary& b) {
  numbers.push_back({"peak_memory_bytes", "peak memory", NumberKind::bytes, false,
                     static_cast<double>(a.peak_memory_bytes), static_cast<double>(b.peak_memory_bytes)});
  for (std::size_t c = 0; c < category_count; ++c) {
    const char* name = to_string(static_cast<Category>(c));
    add_part(numbers, {std::string("peak_memory.") + name, name, NumberKind::bytes, true, worst_memory(a, c),
                       worst_memory(b, c)});
  }
  numbers.push_back({"memory_limit_bytes", "memory limit", NumberKind::bytes, false,
                     static_cast<double>(a.memory_limit_bytes), static_cast<double>(b.memory_limit_bytes)});
}

// ---- text ----

// In the unit of the larger of the two, so that they can be read against each other; in its own if it is far
// smaller.
std::string plain_text(double value, const ComparedNumber& number) {
  if (value == 0) return number.kind == NumberKind::fraction ? "0 %" : "0";
  const double largest = std::max(std::abs(number.a), std::abs(number.b));
  const double larger = std::abs(value) * 1000 < largest ? std::abs(value) : largest;
  switch (number.kind) {
    case NumberKind::seconds: {
      const TimeUnit unit = time_unit(larger);
      return in_unit(value, unit) + " " + unit.name;
    }
    case NumberKind::bytes: {
      const MemoryUnit unit = memory_unit(std::llround(larger));
      return in_unit(std::llround(value), unit) + " " + unit.name;
    }
    case NumberKind::fraction: return percent_text(value);
    case NumberKind::count: return count_text(value);
  }
  return "";
}

std::string difference_text(const ComparedNumber& number) {
  const double difference = number.b - number.a;
  if (difference == 0) return "0";
  const char* sign = difference > 0 ? "+" : "-";
  if (number.kind == NumberKind::fraction)
    return fmt::format("{}{:.1f} points", sign, std::abs(difference) * 100);
  return sign + plain_text(std::abs(difference), number);
}

std::string relative_text(const ComparedNumber& number) {
  if (number.a == number.b) return "0 %";
  return number.a == 0 ? "" : fmt::format("{:+.1f} %", (number.b - number.a) / number.a * 100);
}

std::vector<TextRow> number_rows(const Comparison& comparison, const std::string& indent) {
  std::vector<TextRow> rows;
  for (const ComparedNumber& number : compared_numbers(comparison.a, comparison.b))
    rows.push_back({(number.is_part ? indent : "") + number.label, plain_text(number.a, number),
                    plain_text(number.b, number), difference_text(number), relative_text(number)});
  const auto word = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  rows.push_back({"fits", word(comparison.a.fits), word(comparison.b.fits), "", ""});
  rows.push_back({"engine", comparison.a.engine, comparison.b.engine, "", ""});
  return rows;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string relative_json(const ComparedNumber& number) {
  return number.a == 0 ? "null" : fmt::format("{}", (number.b - number.a) / number.a);
}

std::string without_line_end(std::string json) {
  while (!json.empty() && json.back() == '\n') json.pop_back();
  return json;
}

// Of jobs that count the same.
void add_rates(Numbers& numbers, const Summary& a, const Summary& b) {
  const std::string word = samples_word(a.counts_images);
  numbers.push_back({word + "_per_s", word + "/s", NumberKind::count, false, a.tokens_per_s, b.tokens_per_s});
  numbers.push_back({word + "_per_s_per_gpu", word + "/s per GPU", NumberKind::count, false,
                     a.tokens_per_s_per_gpu, b.tokens_per_s_per_gpu});
}

}  // namespace

std::vector<ComparedNumber> compared_numbers(const Summary& a, const Summary& b) {
  Numbers numbers;
  const auto add = [&](const char* key, const char* label, NumberKind kind, double Summary::*value) {
    numbers.push_back({key, label, kind, false, a.*value, b.*value});
  };
  const auto count = [&](const char* key, const char* label, std::int64_t Summary::*value) {
    numbers.push_back(
        {key, label, NumberKind::count, false, static_cast<double>(a.*value), static_cast<double>(b.*value)});
  };
  add("step_time_s", "step", NumberKind::seconds, &Summary::step_time_s);
  add("first_step_s", "first step", NumberKind::seconds, &Summary::first_step_s);
  if (a.counts_images == b.counts_images) add_rates(numbers, a, b);
  add("mfu", "MFU", NumberKind::fraction, &Summary::mfu);
  add("hfu", "HFU", NumberKind::fraction, &Summary::hfu);
  add("compute_s", "compute", NumberKind::seconds, &Summary::compute_s);
  add_bubble(numbers, a, b);
  add_exposed(numbers, a, b);
  add("hidden_comm_s", "hidden communication", NumberKind::seconds, &Summary::hidden_comm_s);
  add_memory(numbers, a, b);
  count("parameters", "parameters", &Summary::parameters);
  count("ranks", "GPUs", &Summary::ranks);
  return numbers;
}

std::string comparison_table(const Comparison& comparison) {
  std::vector<TextRow> rows{{"", comparison.name_a, comparison.name_b, "difference", ""}};
  for (TextRow& row : number_rows(comparison, "  ")) rows.push_back(std::move(row));
  std::string text = text_table(rows, {0});
  if (comparison.config.empty()) return text + "the configs are equal\n";
  std::vector<TextRow> keys{{"config keys that differ", comparison.name_a, comparison.name_b}};
  for (const ConfigDifference& difference : comparison.config)
    keys.push_back({difference.key, or_dash(difference.a), or_dash(difference.b)});
  return text + text_table(keys, {0});
}

std::string comparison_json(const Comparison& comparison, const std::string& a_json,
                            const std::string& b_json) {
  std::string differences, config;
  for (const ComparedNumber& number : compared_numbers(comparison.a, comparison.b))
    differences +=
        fmt::format("{}\n    {}: {{\"absolute\": {}, \"relative\": {}}}", differences.empty() ? "" : ",",
                    json_quoted(number.key), number.b - number.a, relative_json(number));
  for (const ConfigDifference& difference : comparison.config)
    config += fmt::format("{}\n    {{\"key\": {}, \"a\": {}, \"b\": {}}}", config.empty() ? "" : ",",
                          json_quoted(difference.key), json_quoted(difference.a), json_quoted(difference.b));
  return fmt::format("{{\n\"a\": {},\n\"b\": {},\n\"difference\": {{{}\n  }},\n\"config\": [{}\n  ]\n}}\n",
                     without_line_end(a_json), without_line_end(b_json), differences, config);
}

PageText comparison_text(const Comparison& comparison) {
  const std::vector<ComparedNumber> numbers = compared_numbers(comparison.a, comparison.b);
  std::vector<HtmlRow> rows, keys;
  for (TextRow& row : number_rows(comparison, "")) {
    const bool is_part = rows.size() < numbers.size() && numbers[rows.size()].is_part;
    rows.push_back({std::move(row), is_part ? "part" : ""});
  }
  for (const ConfigDifference& difference : comparison.config)
    keys.push_back({{difference.key, or_dash(difference.a), or_dash(difference.b)}, ""});
  const std::string table =
      html_table("Numbers of the steady step",
                 {"", comparison.name_a, comparison.name_b, "difference", "of A"}, rows, 1);
  const std::string config =
      keys.empty()
          ? "<p>The configs are equal.</p>\n"
          : html_table("Config keys that differ", {"key", comparison.name_a, comparison.name_b}, keys, 1);
  const auto line = [](const char* side, const std::string& name, const Summary& summary) {
    return fmt::format("<p>{}: {}, step {}, MFU {}, peak memory {}</p>\n", side, html_escaped(name),
                       seconds_text(summary.step_time_s), percent_text(summary.mfu),
                       memory_text(summary.peak_memory_bytes));
  };
  return {comparison.name_a + " and " + comparison.name_b,
          line("A", comparison.name_a, comparison.a) + line("B", comparison.name_b, comparison.b),
          table + config};
}

}  // namespace simrun
