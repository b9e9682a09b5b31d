#pragma once

#include <string>
#include <vector>

namespace simrun {

// One record of a CSV file: its fields, unquoted, and the line that it starts on, from 1.
struct CsvRecord {
  int line = 0;
  std::vector<std::string> fields;
  std::string fault;  // why it cannot be used, or ""
};

// Records of RFC 4180: fields between commas, in double quotes where they hold commas, quotes (doubled) or
// line ends. Lines end in CRLF or LF; a UTF-8 byte-order mark and empty lines are skipped. Never throws: a
// record with a quote that opens or closes within a field says so in `fault`, and a quote that is never
// closed ends with its own line, so that one bad record does not swallow the rest.
std::vector<CsvRecord> read_csv_records(const std::string& text);

}  // namespace simrun
