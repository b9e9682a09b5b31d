#pragma once

#include <string>
#include <vector>

namespace simrun {

using TextRow = std::vector<std::string>;

// Rows padded to columns two spaces apart; the first row is the header and says how many columns there are.
// Columns are right-aligned but for those in `left`. A shorter row ends in a remark: its last cell runs on
// and widens no column. Characters are counted, not bytes; control characters become '?'.
std::string text_table(const std::vector<TextRow>& rows, const std::vector<std::size_t>& left);

// Characters of UTF-8 text.
std::size_t text_width(const std::string& text);

}  // namespace simrun
