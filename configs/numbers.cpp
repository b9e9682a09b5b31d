#include "configs/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <vector>

#include "configs/config_node.h"

namespace simrun {
namespace {

constexpr std::size_t longest_number = 40;

bool is_digit(char character) { return character >= '0' && character <= '9'; }
bool all_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

// digits[.digits]
bool is_plain_decimal(std::string_view text) {
  if (text.size() > longest_number) return false;
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return all_digits(text);
  return all_digits(text.substr(0, dot)) && all_digits(text.substr(dot + 1));
}

std::string_view without_sign(std::string_view text) {
  return text.substr(text.starts_with('-') || text.starts_with('+') ? 1 : 0);
}

// As YAML, JSON and Python write decimals: a sign, digits and a point in front of, between or behind them, an
// exponent.
bool is_decimal(std::string_view text) {
  if (text.size() > longest_number) return false;
  const std::string_view magnitude = without_sign(text);
  const std::size_t e = magnitude.find_first_of("eE");
  const std::string_view mantissa = magnitude.substr(0, e);
  const bool has_exponent = e != std::string_view::npos;
  if (has_exponent && !all_digits(without_sign(magnitude.substr(e + 1)))) return false;
  if (is_plain_decimal(mantissa)) return true;
  return (mantissa.starts_with('.') && all_digits(mantissa.substr(1))) ||
         (mantissa.ends_with('.') && all_digits(mantissa.substr(0, mantissa.size() - 1)));
}

bool has_leading_zero(std::string_view text) {
  text = without_sign(text);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

std::optional<double> to_double(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value + 0.0;  // no -0
}

// Up to where `text` may be a number: behind its digits, points and exponent.
std::size_t end_of_number(const std::string& text) {
  const std::size_t sign = text.size() - without_sign(text).size();
  const std::size_t end = std::min(text.find_first_not_of("0123456789.", sign), text.size());
  if (end == text.size() || (text[end] != 'e' && text[end] != 'E')) return end;
  const std::string_view exponent = without_sign(std::string_view(text).substr(end + 1));
  const std::size_t digits = std::min(exponent.find_first_not_of("0123456789"), exponent.size());
  return digits == 0 ? end : text.size() - exponent.size() + digits;
}

// What somebody who wrote 1e9, 1_000 or 8.0 meant, when that is a whole number.
std::string whole_number_meant(std::string text) {
  std::erase(text, '_');
  const std::optional<double> value = to_double(text);
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (!value || *value < 0 || *value >= exact || std::floor(*value) != *value) return "";
  return fmt::format("write {:.0f}.", *value);
}

struct UnitName {
  std::string_view name;
  double scale;
};

const std::vector<UnitName>& names_of(Unit unit) {
  static const std::vector<UnitName> bytes = {{"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10},
                                              {"TiB", 0x1p40}, {"GB", 1e9},     {"MB", 1e6},
                                              {"kB", 1e3},     {"TB", 1e12},    {"B", 1}};
  static const std::vector<UnitName> rates = {{"GB/s", 1e9},     {"MB/s", 1e6},     {"TB/s", 1e12},
                                              {"Gb/s", 1e9 / 8}, {"Mb/s", 1e6 / 8}, {"Tb/s", 1e12 / 8},
                                              {"GiB/s", 0x1p30}, {"MiB/s", 0x1p20}, {"TiB/s", 0x1p40}};
  static const std::vector<UnitName> times = {{"us", 1e-6}, {"ns", 1e-9}, {"ms", 1e-3}, {"s", 1}};
  static const std::vector<UnitName> flops = {{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}, {"PFLOP/s", 1e15}};
  switch (unit) {
    case Unit::bytes: return bytes;
    case Unit::bytes_per_second: return rates;
    case Unit::seconds: return times;
    case Unit::flops_per_second: return flops;
  }
  return bytes;
}

std::string unit_list(Unit unit) {
  std::string list;
  for (const UnitName& name : names_of(unit)) list += (list.empty() ? "" : ", ") + std::string(name.name);
  return list;
}

// A limit in the unit that spells it shortest: 1 MiB, 1024 TiB.
std::string spelled(double limit, Unit unit) {
  std::string shortest;
  for (const UnitName& name : names_of(unit)) {
    const std::string text = fmt::format("{:.7g} {}", limit / name.scale, name.name);
    if (shortest.empty() || text.size() < shortest.size()) shortest = text;
  }
  return shortest;
}

std::string missing_unit_hint(const std::string& number, Unit unit) {
  switch (unit) {
    case Unit::bytes: return fmt::format("write {} GiB (2^30 bytes) or {} GB (10^9 bytes).", number, number);
    case Unit::bytes_per_second:
      return fmt::format("write {} GB/s (bytes) or {} Gb/s (bits).", number, number);
    case Unit::seconds: return fmt::format("write {} us, {} ns, ...", number, number);
    case Unit::flops_per_second: return fmt::format("write {} TFLOP/s.", number);
  }
  return "";
}

// From the value alone, so that "1e3", ".50" and "+1." are spelled as 1000, 0.5 and 1 are, 0.00001 as 1e-5.
std::string spelled_alike(double value) {
  const std::string shortest = fmt::format("{}", value);
  return shortest.find('e') == std::string::npos ? canonical_decimal(shortest) : shortest;
}

}  // namespace

std::string canonical_decimal(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

Parsed<std::int64_t> parse_integer(const std::string& text, IntegerRange range) {
  const bool is_negative = text.size() > 1 && text[0] == '-';
  const std::string_view digits = std::string_view(text).substr(is_negative ? 1 : 0);
  if (is_negative && range.least >= 0 && all_digits(digits))
    return {{}, fmt::format("must be at least {}, not {}", range.least, in_quotes(text)), ""};
  if (!all_digits(digits))
    return {{},
            fmt::format("must be a whole number in plain digits, not {}", in_quotes(text)),
            whole_number_meant(text.substr(0, longest_number))};
  if (has_leading_zero(digits))
    return {{},
            fmt::format("{} starts with a zero, which YAML 1.1 reads as octal", in_quotes(text)),
            "write it without the zero."};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value > range.most)
    return {{}, fmt::format("must be at most {}, not {}", range.most, in_quotes(text)), ""};
  if (value < range.least) return {{}, fmt::format("must be at least {}, not {}", range.least, value), ""};
  return {value, "", ""};
}

Parsed<double> parse_real(const std::string& text, RealRange range) {
  if (!is_decimal(text) || has_leading_zero(text))
    return {{}, fmt::format("must be a number such as 0.1, not {}", in_quotes(text)), ""};
  const std::optional<double> value = to_double(text);
  if (!value || *value < range.least || *value > range.most)
    return {{}, fmt::format("must be from {} to {}, not {}", range.least, range.most, in_quotes(text)), ""};
  return {*value, "", ""};
}

Parsed<Quantity> parse_quantity(const std::string& text, Unit unit, RealRange range) {
  const std::size_t number_end = end_of_number(text);
  const std::string number = text.substr(0, number_end);
  if (!is_decimal(number) || has_leading_zero(number))
    return {
        {}, fmt::format("must be a number and its unit ({}), not {}", unit_list(unit), in_quotes(text)), ""};
  const std::size_t unit_start = text.find_first_not_of(' ', number_end);
  if (unit_start == std::string::npos)
    return {{}, fmt::format("needs a unit: {} of what?", number), missing_unit_hint(number, unit)};

  const std::string name = text.substr(unit_start);
  for (const UnitName& known : names_of(unit)) {
    if (known.name != name) continue;
    const std::optional<double> count = to_double(number);
    const double value = count.value_or(0) * known.scale;
    if (!count || value < range.least || value > range.most)
      return {{},
              fmt::format("must be from {} to {}, not {}", spelled(range.least, unit),
                          spelled(range.most, unit), in_quotes(text)),
              ""};
    return {Quantity{value, spelled_alike(*count) + " " + name}, "", ""};
  }
  return {{}, fmt::format("unknown unit {}", in_quotes(name)), fmt::format("one of {}.", unit_list(unit))};
}

}  // namespace simrun
