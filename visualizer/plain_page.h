#pragma once

#include <string>

#include "visualizer/text_table.h"

namespace simrun {

// A self-contained HTML file of tables and inline SVG: no script, nothing fetched, light or dark as the
// reader's system is. `title` is text; `body` is HTML.
std::string plain_page(const std::string& title, const std::string& body);

struct HtmlRow {
  TextRow cells;          // text; a row with fewer cells than the header ends in a cell that spans the rest
  std::string row_class;  // "", "best", "over", "refused", "part"
};

// A table whose first `row_headers` columns head their rows.
std::string html_table(const std::string& caption, const TextRow& header, const std::vector<HtmlRow>& rows,
                       std::size_t row_headers);

}  // namespace simrun
