#include "traces/nanoseconds.h"

#include <charconv>
#include <string>

namespace simrun {
namespace {

constexpr std::int64_t largest_ns = std::int64_t{1} << 61;  // sums and differences of two stay in 64 bits

// Digits of a decimal number and how many of them stand before its point, which may be outside of them.
struct Decimal {
  std::string digits;
  std::int64_t before_point = 0;
};

std::optional<Decimal> decimal_of(std::string_view text) {
  Decimal decimal;
  std::size_t at = 0;
  bool behind_point = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.' && !behind_point) {
      behind_point = true;
      continue;
    }
    if (text[at] < '0' || text[at] > '9') return std::nullopt;
    decimal.digits += text[at];
    if (!behind_point) ++decimal.before_point;
  }
  if (decimal.digits.empty()) return std::nullopt;
  if (at == text.size()) return decimal;
  std::string_view exponent = text.substr(at + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  int power = 0;
  const auto [end, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  if (error != std::errc() || end != exponent.data() + exponent.size()) return std::nullopt;
  decimal.before_point += power;
  return decimal;
}

// The digits from `begin` to `end`; those outside of the number are 0. Nothing if it is too large.
std::optional<std::int64_t> number_at(const Decimal& decimal, std::int64_t begin, std::int64_t end) {
  std::int64_t number = 0;
  const auto size = static_cast<std::int64_t>(decimal.digits.size());
  if (begin < 0) begin = 0;
  for (std::int64_t at = begin; at < end; ++at) {
    if (number == 0 && at >= size) return 0;
    if (number > largest_ns / 10) return std::nullopt;
    number = number * 10 + (at < size ? decimal.digits[static_cast<std::size_t>(at)] - '0' : 0);
  }
  return number;
}

}  // namespace

std::optional<TracedTime> microseconds_to_ns(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const std::optional<Decimal> decimal = decimal_of(text);
  if (!decimal) return std::nullopt;
  const std::int64_t whole_end = decimal->before_point + 3;  // 1 us = 1000 ns
  const std::optional<std::int64_t> whole = number_at(*decimal, 0, whole_end);
  if (!whole || *whole > largest_ns) return std::nullopt;
  TracedTime time{*whole, 0};
  for (std::int64_t at = whole_end; at < whole_end + 3; ++at) {
    const bool is_digit = at >= 0 && at < static_cast<std::int64_t>(decimal->digits.size());
    time.ps = time.ps * 10 + (is_digit ? decimal->digits[static_cast<std::size_t>(at)] - '0' : 0);
  }
  if (!is_negative) return time;
  return time.ps == 0 ? TracedTime{-time.ns, 0} : TracedTime{-time.ns - 1, 1000 - time.ps};
}

bool is_beyond_ns(std::string_view text) {
  if (microseconds_to_ns(text)) return false;
  if (text.starts_with('-')) text.remove_prefix(1);
  return decimal_of(text).has_value();
}

}  // namespace simrun
