#include "validation/measured_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>

#include "validation/measured_value.h"

namespace simrun {
namespace {

std::string header() { return fmt::format("{}\n", fmt::join(column_names(), ",")); }

// A row whose first cells are these.
std::string line(const std::string& start, std::size_t cells) {
  return start + std::string(column_count - cells, ',') + "\n";
}

TEST_CASE("rows: columns may come in any order, with others between them") {
  std::string names = "extra";
  for (std::size_t column = column_count; column-- > 0;) names += std::string(",") + column_names()[column];
  const std::string cells =
      "x,a note,," + std::string(" 1.5 ") + ",iter_time_s" + std::string(column_count - 4, ',');
  const MeasuredFile file = read_measured_rows(names + "\n" + cells, "rows.csv");
  CHECK(file.unused_columns == std::vector<std::string>{"extra"});
  REQUIRE(file.rows.size() == 1);
  CHECK(file.rows[0][Column::notes] == "a note");
  CHECK(file.rows[0].number(Column::measured_value) == 1.5);
  CHECK(file.rows[0].fault.empty());
}

TEST_CASE("rows: a broken row keeps its place and says what is wrong with it") {
  std::string good(column_count - 1, ',');
  good.insert(32, "7");  // measured_value is column 32
  const MeasuredFile file =
      read_measured_rows(header() + "a,b\n" + line("only,a,start", 3) + good + "\n\"open,\n", "rows.csv");
  REQUIRE(file.rows.size() == 4);
  CHECK(file.rows[0].fault == "2 fields, the header has 35");
  CHECK(file.rows[0].line == 2);
  CHECK(file.rows[1].fault == "measured_value '' is no number");
  CHECK(file.rows[2].fault.empty());
  CHECK(file.rows[3].fault == "a quote is opened and never closed");
}

TEST_CASE("rows: an MFU that is written as a share is a percentage") {
  const std::vector<std::string> columns(column_names().begin(), column_names().end());
  const auto value = [&](const char* metric, const char* measured) {
    std::string cells;
    for (const std::string& column : columns) {
      if (!cells.empty() || column != columns.front()) cells += ",";
      cells += column == "measured_metric" ? metric : column == "measured_value" ? measured : "x";
    }
    return read_measured_rows(header() + cells + "\n", "rows.csv").rows.at(0).number(Column::measured_value);
  };
  CHECK(value("mfu", "0.552") == 55.2);
  CHECK(value("mfu", "55.2") == 55.2);
  CHECK(value("iter_time_s", "0.552") == 0.552);
  CHECK(value("HFU", "0.552") == 55.2);
  CHECK(value("mfu", "0.8 %") == 0.8);
}

TEST_CASE("rows: a measurement may have its metric's unit behind it, a sequence its tokens in thousands") {
  CHECK(plain_measured_value("41.0%", "mfu") == "41.0");
  CHECK(plain_measured_value("182 TFLOP/s", "tflops_per_gpu") == "182");
  CHECK(plain_measured_value("3,700 ms", "iter_time_s") == "3.7");
  CHECK(plain_measured_value("11,200 tokens/s", "tokens_per_s") == "11200");
  CHECK(plain_measured_value("11,200 tokens/s/gpu", "tokens_per_s") == "11,200 tokens/s/gpu");
  CHECK(plain_measured_value("29K", "tokens_per_s") == "29000");
  CHECK(plain_measured_value("1.2M tokens/s", "tokens_per_s") == "1200000");
  CHECK(plain_measured_value("29K", "iter_time_s") == "29K");
  CHECK(plain_measured_value("700 img/s", "samples_per_s") == "700");
  CHECK(plain_measured_value("0.95 s/it", "iter_time_s") == "0.95");
  CHECK(plain_measured_value("950 ms", "iter_time_s") == "0.95");
  CHECK(plain_measured_value("34 GiB", "memory_gb") == "34 GiB");
  CHECK(plain_measured_value("12 bananas", "mfu") == "12 bananas");
  CHECK(plain_measured_value("ms", "iter_time_s") == "ms");
  CHECK(plain_measured_value("", "iter_time_s").empty());
  CHECK(plain_sequence("4k") == "4096");
  CHECK(plain_sequence("32K tokens") == "32768");
  CHECK(plain_sequence("8192 tokens") == "8192");
  CHECK(plain_sequence("4M") == "4194304");
}

TEST_CASE("rows: a header that lacks a column or has one twice is refused, with every fault") {
  std::string names = header();
  names.replace(names.find("hidden"), 6, "hiden");
  names.replace(names.find(",tp,"), 4, ",pp,");
  try {
    read_measured_rows(names, "rows.csv");
    FAIL("accepted");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 3);
    CHECK(error.diagnostics()[0].message == "column 'pp' is there twice");
    CHECK(error.diagnostics()[1].message == "the header has no column 'hidden'");
    CHECK(error.diagnostics()[1].hint == "is 'hiden' meant?");
    CHECK(error.diagnostics()[2].message == "the header has no column 'tp'");
  }
  CHECK_THROWS_AS(read_measured_rows("", "rows.csv"), ConfigError);
}

TEST_CASE("rows: whole numbers are read whole") {
  MeasuredRow row;
  row[Column::tp] = "8";
  row[Column::pp] = "8x";
  row[Column::vpp] = "1.5";
  row[Column::measured_value] = "nan";
  CHECK(row.integer(Column::tp) == 8);
  CHECK_FALSE(row.integer(Column::pp));
  CHECK_FALSE(row.integer(Column::vpp));
  CHECK(row.number(Column::vpp) == 1.5);
  CHECK_FALSE(row.number(Column::measured_value));
}

}  // namespace
}  // namespace simrun
