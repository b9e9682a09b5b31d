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
  static const Units seconds{{"ms", 1e-3}, {"milliseconds", 1e-3}, {"s", 1}, {"sec", 1}, {"seconds", 1}};
  static const Units rates{{"tflops", 1},       {"tflop/s", 1},    {"tflops/s", 1}, {"tflop/s/gpu", 1},
                           {"tflops/s/gpu", 1}, {"tflops/gpu", 1}, {"pflop/s", 1e3}};
  static const Units tokens{{"tokens/s", 1}, {"tok/s", 1}};
  static const Units tokens_of_gpu{{"tokens/s", 1}, {"tok/s", 1}, {"tokens/s/gpu", 1}, {"tok/s/gpu", 1}};
  static const Units samples{{"samples/s", 1}, {"sequences/s", 1}};
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

}  // namespace

std::string plain_measured_value(const std::string& cell, const std::string& metric) {
  const NumberWithUnit of = number_in(cell);
  for (const auto& [unit, factor] : units_of(metric)) {
    if (of.unit != unit) continue;
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
  if (!is_thousands && of.unit != "tokens") return cell;
  const std::string digits = without_thousands(of.number);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return cell;
  return fmt::format("{:.15g}", number * (is_thousands ? 1024 : 1));
}

}  // namespace simrun
