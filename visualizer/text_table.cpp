#include "visualizer/text_table.h"

#include <algorithm>

namespace simrun {

namespace {

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

bool is_remark(const TextRow& row, std::size_t column, std::size_t columns) {
  return row.size() < columns && column + 1 == row.size();
}

std::vector<std::size_t> column_widths(const std::vector<TextRow>& rows, std::size_t columns) {
  std::vector<std::size_t> widths(columns, 0);
  for (const TextRow& row : rows)
    for (std::size_t c = 0; c < std::min(columns, row.size()); ++c)
      if (!is_remark(row, c, columns)) widths[c] = std::max(widths[c], text_width(row[c]));
  return widths;
}

}  // namespace

std::size_t text_width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }));
}

std::string text_table(const std::vector<TextRow>& rows, const std::vector<std::size_t>& left) {
  if (rows.empty()) return "";
  const std::size_t columns = rows.front().size();
  const std::vector<std::size_t> widths = column_widths(rows, columns);
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < std::min(columns, row.size()); ++c) {
      const std::string cell = printable(row[c]);
      const std::size_t width = text_width(cell);
      const std::string padding(widths[c] > width ? widths[c] - width : 0, ' ');
      const bool is_left = is_remark(row, c, columns) || std::ranges::find(left, c) != left.end();
      line += (c == 0 ? "" : "  ") + (is_left ? cell + padding : padding + cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace simrun
