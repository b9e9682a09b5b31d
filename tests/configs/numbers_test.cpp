#include "configs/numbers.h"

#include <catch2/catch.hpp>

using namespace simrun;

TEST_CASE("integers are plain decimal digits; everything else is refused with what to write") {
  struct Row {
    std::string text;
    std::string problem;
    std::string hint;
  };
  const std::vector<Row> refused = {
      {"010", "'010' starts with a zero, which YAML 1.1 reads as octal", "write it without the zero."},
      {"1e9", "must be a whole number in plain digits, not '1e9'", "write 1000000000."},
      {"1_000", "must be a whole number in plain digits, not '1_000'", "write 1000."},
      {"8.0", "must be a whole number in plain digits, not '8.0'", "write 8."},
      {"8.5", "must be a whole number in plain digits, not '8.5'", ""},
      {"0x10", "must be a whole number in plain digits, not '0x10'", ""},
      {"0o10", "must be a whole number in plain digits, not '0o10'", ""},
      {"-4", "must be at least 1, not '-4'", ""},
      {"+4", "must be a whole number in plain digits, not '+4'", "write 4."},
      {"0", "must be at least 1, not 0", ""},
      {"1001", "must be at most 1000, not '1001'", ""},
      {"9223372036854775808", "must be at most 1000, not '9223372036854775808'", ""},
      {"99999999999999999999999999", "must be at most 1000, not '99999999999999999999999999'", ""},
      {"", "must be a whole number in plain digits, not ''", ""},
      {"4 ", "must be a whole number in plain digits, not '4 '", ""},
      {"4k", "must be a whole number in plain digits, not '4k'", ""},
      {".inf", "must be a whole number in plain digits, not '.inf'", ""},
      {"nan", "must be a whole number in plain digits, not 'nan'", ""},
      {"true", "must be a whole number in plain digits, not 'true'", ""},
      {"\xd9\xa3", "must be a whole number in plain digits, not '\xd9\xa3'", ""},
  };
  for (const Row& row : refused) {
    CAPTURE(row.text);
    const Parsed<std::int64_t> parsed = parse_integer(row.text, {1, 1000});
    CHECK_FALSE(parsed.value);
    CHECK(parsed.problem == row.problem);
    CHECK(parsed.hint == row.hint);
  }
  CHECK(parse_integer("1", {1, 1000}).value == 1);
  CHECK(parse_integer("1000", {1, 1000}).value == 1000);
  CHECK(parse_integer("0", {0, 3}).value == 0);
  CHECK(parse_integer("9223372036854775807", {0, INT64_MAX}).value == INT64_MAX);
}

TEST_CASE("reals are decimals, as YAML and Python write them, within their range") {
  CHECK(parse_real("0.1", {0, 1}).value == 0.1);
  CHECK(parse_real("1", {0, 1}).value == 1.0);
  CHECK(parse_real("1e-1", {0, 1}).value == 0.1);  // as JSON may write it
  CHECK(parse_real("1.5E-05", {0, 1}).value == 1.5e-5);
  CHECK(parse_real("0.01e+2", {0, 1}).value == 1.0);
  CHECK(parse_real(".5", {0, 1}).value == 0.5);
  CHECK(parse_real("1.", {0, 1}).value == 1.0);
  CHECK(parse_real("+1e-4", {0, 1}).value == 1e-4);
  CHECK(parse_real("-.5e1", {-9, 1}).value == -5.0);
  CHECK(parse_real("1.e-1", {0, 1}).value == 0.1);
  for (const char* text : {"", ".", "+", "e5", "1e", "1e+", "1e-1.5", "01e-1", "-01", "+-1", "nan", ".nan",
                           "inf", "0,5", "00.5", "0.1.2", ".5.", "1_0", "1 "}) {
    CAPTURE(text);
    CHECK(parse_real(text, {0, 1}).problem.starts_with("must be a number such as 0.1, not '"));
  }
  for (const char* text : {"-1", "-0.1", "1.1", "+1e9", "1e999"}) {
    CAPTURE(text);
    CHECK(parse_real(text, {0, 1}).problem == "must be from 0 to 1, not '" + std::string(text) + "'");
  }
}

TEST_CASE("quantities: G is 1e9, Gi is 2^30, b is a bit and B a byte") {
  const auto value = [](const char* text, Unit unit) {
    return parse_quantity(text, unit, {0, 1e30}).value.value_or(Quantity{-1, ""}).value;
  };
  CHECK(value("450 GB/s", Unit::bytes_per_second) == 450e9);
  CHECK(value("450GB/s", Unit::bytes_per_second) == 450e9);
  CHECK(value("400 Gb/s", Unit::bytes_per_second) == 50e9);  // 400e9 bits / 8
  CHECK(value("3.35 TB/s", Unit::bytes_per_second) == 3.35e12);
  CHECK(value("1 GiB/s", Unit::bytes_per_second) == 1073741824.0);
  CHECK(value("80 GiB", Unit::bytes) == 85899345920.0);  // 80 x 2^30
  CHECK(value("80 GB", Unit::bytes) == 80e9);
  CHECK(value("512 KiB", Unit::bytes) == 524288.0);
  CHECK(value("2 us", Unit::seconds) == 2e-6);
  CHECK(value("0.5 ms", Unit::seconds) == 0.5e-3);
  CHECK(value("989.4 TFLOP/s", Unit::flops_per_second) == 989.4e12);
  CHECK(value("1.5e3 GB/s", Unit::bytes_per_second) == 1.5e12);
  CHECK(value(".5us", Unit::seconds) == 0.5e-6);
}

TEST_CASE("equal quantities are spelled equally in the effective config") {
  CHECK(parse_quantity("450.0GB/s", Unit::bytes_per_second, {0, 1e12}).value->text == "450 GB/s");
  CHECK(parse_quantity("3.350   TB/s", Unit::bytes_per_second, {0, 1e13}).value->text == "3.35 TB/s");
  CHECK(parse_quantity("100 GB/s", Unit::bytes_per_second, {0, 1e12}).value->text == "100 GB/s");
  for (const char* text : {"+450. GB/s", "4.5e2 GB/s", "4.50e+02GB/s"})
    CHECK(parse_quantity(text, Unit::bytes_per_second, {0, 1e12}).value->text == "450 GB/s");
  for (const char* text : {"0.00001 s", "1e-5 s", ".1e-4s", "0.000010 s"})
    CHECK(parse_quantity(text, Unit::seconds, {0, 1}).value->text == "1e-05 s");
  for (const char* text : {"150000000000000000000 B", "1.5e20 B"})
    CHECK(parse_quantity(text, Unit::bytes, {0, 1e30}).value->text == "1.5e+20 B");
  CHECK(parse_quantity("1.50e20 B", Unit::bytes, {0, 1e30}).value->text == "1.5e+20 B");
}

TEST_CASE("a quantity without its unit, or in another one, is refused") {
  const auto bare = parse_quantity("450", Unit::bytes_per_second, {0, 1e12});
  CHECK(bare.problem == "needs a unit: 450 of what?");
  CHECK(bare.hint == "write 450 GB/s (bytes) or 450 Gb/s (bits).");
  CHECK(parse_quantity("450 Gbps", Unit::bytes_per_second, {0, 1e12}).problem == "unknown unit 'Gbps'");
  CHECK(parse_quantity("2 GB", Unit::seconds, {0, 1}).problem == "unknown unit 'GB'");
  CHECK(parse_quantity("450 TB/s", Unit::bytes_per_second, {0, 1e12}).problem ==
        "must be from 0 GB/s to 1 TB/s, not '450 TB/s'");
  CHECK(parse_quantity("900 PB", Unit::bytes, {0x1p20, 0x1p50}).problem == "unknown unit 'PB'");
  CHECK(parse_quantity("9000 TiB", Unit::bytes, {0x1p20, 0x1p50}).problem ==
        "must be from 1 MiB to 1024 TiB, not '9000 TiB'");
  for (const char* text : {"1e300 GB/s", "1e999 GB/s", "-1 GB/s"})
    CHECK(parse_quantity(text, Unit::bytes_per_second, {0, 1e12}).problem ==
          "must be from 0 GB/s to 1 TB/s, not '" + std::string(text) + "'");
  CHECK(parse_quantity("1e GB/s", Unit::bytes_per_second, {0, 1e12}).problem == "unknown unit 'e GB/s'");
  for (const char* text : {"", "GB/s", "+ GB/s", "1.2.3 GB/s", "010 GB/s", "- 1 GB/s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_quantity(text, Unit::bytes_per_second, {0, 1e12}).value);
  }
}
