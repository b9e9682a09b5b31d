#include "validation/measured_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "validation/link_text.h"
#include "validation/row_cells.h"

namespace simrun {
namespace {

// What may stand behind a number, and what the number is multiplied with then.
using Units = std::vector<std::pair<const char*, double>>;

const Units& units_of(const std::string& metric) {
  static const Units seconds{
      {"ms", 1e-3},   {"milliseconds", 1e-3}, {"ms/it", 1e-3}, {"ms/step", 1e-3}, {"s", 1},
      {"sec", 1},     {"seconds", 1},         {"s/it", 1},     {"s/step", 1},     {"s/iter", 1},
      {"sec/step", 1}};
  static const Units rates{{"tflops", 1},       {"tflop/s", 1},    {"tflops/s", 1}, {"tflop/s/gpu", 1},
                           {"tflops/s/gpu", 1}, {"tflops/gpu", 1}, {"pflop/s", 1e3}};
  static const Units tokens{{"tokens/s", 1}, {"tok/s", 1}, {"tokens/sec", 1}, {"tps", 1}};
  static const Units tokens_of_gpu{
      {"tokens/s", 1},  {"tok/s", 1},          {"tokens/sec", 1},  {"tps", 1},    {"tokens/s/gpu", 1},
      {"tok/s/gpu", 1}, {"tokens/sec/gpu", 1}, {"tok/sec/gpu", 1}, {"tps/gpu", 1}};
  static const Units samples{{"samples/s", 1},  {"samples/sec", 1}, {"sequences/s", 1},
                             {"seq/s", 1},      {"seqs/s", 1},      {"images/s", 1},
                             {"images/sec", 1}, {"img/s", 1},       {"img/sec", 1}};
  static const Units shares{{"%", 1}, {"percent", 1}};
  static const Units none;  // of memory_gb: GB and GiB are what its source's rule says
  if (metric == "iter_time_s") return seconds;
  if (metric == "tflops_per_gpu") return rates;
  if (metric == "tokens_per_s") return tokens;
  if (metric == "tokens_per_s_per_gpu") return tokens_of_gpu;
  if (metric == "samples_per_s") return samples;
  return metric == "mfu" ? shares : none;
}

struct NumberWithUnit {
  std::string number, unit;  // the unit in lower case
};

NumberWithUnit number_in(const std::string& cell) {
  const std::size_t end = std::min(cell.find_first_not_of("0123456789.,"), cell.size());
  const std::size_t unit = std::min(cell.find_first_not_of(' ', end), cell.size());
  return {cell.substr(0, end), lower_case(cell.substr(unit))};
}

// "29K" and "1.2M tokens/s": what the first letter of a rate's unit multiplies with, which it loses.
double take_thousands(const std::string& metric, std::string& unit) {
  const bool is_rate = metric.starts_with("tokens_per_s") || metric == "samples_per_s";
  const bool is_apart = unit.size() == 1 || (unit.size() > 1 && unit[1] == ' ');
  if (!is_rate || unit.empty() || !is_apart || (unit[0] != 'k' && unit[0] != 'm')) return 1;
  const double factor = unit[0] == 'k' ? 1e3 : 1e6;
  unit.erase(0, unit.size() > 1 ? 2 : 1);
  return factor;
}

}  // namespace

std::string plain_measured_value(const std::string& cell, const std::string& metric) {
  NumberWithUnit of = number_in(cell);
  const double thousands = take_thousands(metric, of.unit);
  Units units = units_of(metric);
  if (thousands > 1) units.emplace_back("", 1);
  for (const auto& [unit, of_unit] : units) {
    if (of.unit != unit) continue;
    const double factor = thousands * of_unit;
    const std::string digits = without_thousands(of.number);
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) return cell;
    return factor == 1 ? digits : fmt::format("{:.12g}", number * factor);
  }
  return without_thousands(cell);
}

std::string plain_sequence(const std::string& cell) {
  const NumberWithUnit of = number_in(cell);
  const bool is_thousands = of.unit == "k" || of.unit == "k tokens";
  const bool is_millions = of.unit == "m" || of.unit == "m tokens";
  if (!is_thousands && !is_millions && of.unit != "tokens") return cell;
  const std::string digits = without_thousands(of.number);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return cell;
  return fmt::format("{:.15g}", number * (is_millions ? 1024 * 1024 : is_thousands ? 1024 : 1));
}

}  // namespace simrun
