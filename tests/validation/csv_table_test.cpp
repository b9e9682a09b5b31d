#include "validation/csv_table.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

using Fields = std::vector<std::string>;

TEST_CASE("CSV: quotes hold commas, doubled quotes and line ends; lines are counted as written") {
  const auto records = read_csv_records(
      "\xEF\xBB\xBF"
      "a,b\r\n\"1,5\",\"say \"\"no\"\"\"\n\n\"two\nlines\",\n,x");
  REQUIRE(records.size() == 4);
  CHECK(records[0].fields == Fields{"a", "b"});
  CHECK(records[1].fields == Fields{"1,5", "say \"no\""});
  CHECK(records[2].fields == Fields{"two\nlines", ""});
  CHECK(records[2].line == 4);
  CHECK(records[3].fields == Fields{"", "x"});
  CHECK(records[3].line == 6);
  for (const CsvRecord& record : records) CHECK(record.fault.empty());
}

TEST_CASE("CSV: a quote that is never closed spoils its own line only") {
  const auto records = read_csv_records("a,b\n\"open,1\nc,d\n");
  REQUIRE(records.size() == 3);
  CHECK(records[1].fault == "a quote is opened and never closed");
  CHECK(records[2].fields == Fields{"c", "d"});
  CHECK(records[2].line == 3);
}

TEST_CASE("CSV: quotes that open or close within a field are faults") {
  const auto records = read_csv_records("5\" disk,1\n\"a\"b,2\n\"\",\n");
  REQUIRE(records.size() == 3);
  CHECK(records[0].fault == "a quote within a field that does not begin with one");
  CHECK(records[1].fault == "text behind a closing quote");
  CHECK(records[2].fault.empty());
  CHECK(read_csv_records("").empty());
  CHECK(read_csv_records("\n\r\n").empty());
}

}  // namespace
}  // namespace simrun
