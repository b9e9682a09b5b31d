#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace simrun {

// A value read from the characters of a scalar, or one sentence that says why not.
template <typename Value>
struct Parsed {
  std::optional<Value> value;
  std::string problem;
  std::string hint;
};

struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
struct RealRange {
  double least = 0;
  double most = 0;
};

// Plain decimal digits only: 010 (octal to YAML 1.1), 1e9, 1_000, 0x10 and 8.0 are refused, each with what to
// write. A minus sign is read where the range has numbers below 0.
Parsed<std::int64_t> parse_integer(const std::string& text, IntegerRange range);

// Decimals as YAML, JSON and Python write them: 0.1, 1, 450, 1e-05, .5, 1., +1e-4.
Parsed<double> parse_real(const std::string& text, RealRange range);

// The one spelling of a plain decimal: "450.0" -> "450", "3.350" -> "3.35".
std::string canonical_decimal(std::string text);

enum class Unit : std::uint8_t { bytes, bytes_per_second, seconds, flops_per_second };

struct Quantity {
  double value = 0;  // bytes, bytes/s, s or FLOP/s
  std::string text;  // canonical spelling, "450 GB/s": equal quantities in the same unit are spelled equally
};

// A number, as parse_real reads it, with its unit: "450 GB/s", "400 Gb/s" (bits), "2 us", "80 GiB", "989.4
// TFLOP/s". G is 1e9, Gi is 2^30. A bare number is refused.
Parsed<Quantity> parse_quantity(const std::string& text, Unit unit, RealRange range);

}  // namespace simrun
