#include "validation/csv_table.h"

#include <algorithm>
#include <string_view>

namespace simrun {
namespace {

class CsvText {
 public:
  explicit CsvText(std::string_view text) : text_(text) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text_.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  }

  bool is_at_end() const { return at_ >= text_.size(); }

  CsvRecord record() {
    const std::size_t start = at_;
    const int line = line_;
    CsvRecord read = quoted_record();
    if (!is_unclosed_) return read;
    // The quote would take in every later record: this one is its first line, and is refused.
    is_unclosed_ = false;
    at_ = std::min(text_.find('\n', start), text_.size() - 1) + 1;
    line_ = line + 1;
    return {line, {}, "a quote is opened and never closed"};
  }

 private:
  char here() const { return text_[at_]; }
  bool is_at_line_end() const { return is_at_end() || here() == '\n' || text_.substr(at_, 2) == "\r\n"; }

  void skip_line_end() {
    if (is_at_end()) return;
    at_ += here() == '\r' ? 2 : 1;
    ++line_;
  }

  CsvRecord quoted_record() {
    CsvRecord read{line_, {}, ""};
    while (true) {
      read.fields.push_back(!is_at_end() && here() == '"' ? quoted(read.fault) : plain(read.fault));
      if (is_at_line_end()) break;
      ++at_;  // the comma
    }
    skip_line_end();
    return read;
  }

  std::string plain(std::string& fault) {
    std::string field;
    for (; !is_at_line_end() && here() != ','; ++at_) {
      if (here() == '"') fault = "a quote within a field that does not begin with one";
      field += here();
    }
    return field;
  }

  std::string quoted(std::string& fault) {
    std::string field;
    for (++at_; !is_at_end(); ++at_) {
      if (here() == '"' && text_.substr(at_, 2) != "\"\"") break;
      if (here() == '"') ++at_;
      if (here() == '\n') ++line_;
      field += here();
    }
    if (is_at_end()) {
      is_unclosed_ = true;
      return field;
    }
    ++at_;  // the closing quote
    for (; !is_at_line_end() && here() != ','; ++at_) fault = "text behind a closing quote";
    return field;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool is_unclosed_ = false;
};

}  // namespace

std::vector<CsvRecord> read_csv_records(const std::string& text) {
  std::vector<CsvRecord> records;
  CsvText csv(text);
  while (!csv.is_at_end()) {
    CsvRecord record = csv.record();
    const bool is_empty = record.fault.empty() && record.fields.size() == 1 && record.fields.front().empty();
    if (!is_empty) records.push_back(std::move(record));
  }
  return records;
}

}  // namespace simrun
