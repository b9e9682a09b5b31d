#include "visualizer/csv_text.h"

namespace simrun {
namespace {

// RFC 4180: a field with a comma, quote or line end stands in quotes, quotes in it are doubled.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string csv_line(const TextRow& fields) {
  std::string line;
  for (std::size_t f = 0; f < fields.size(); ++f) line += (f == 0 ? "" : ",") + csv_field(fields[f]);
  return line + "\n";
}

}  // namespace simrun
