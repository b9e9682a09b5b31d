#include "visualizer/plain_page.h"

#include <fmt/format.h>

#include "visualizer/page_tables.h"

namespace simrun {

namespace {

// The colours of the page of one run (visualizer/src/viewer.css).
constexpr const char* style = R"(
:root { color-scheme: light dark; --ground: #ffffff; --text: #1c2024; --faint: #5f6770; --line: #d4d8dd; --best: #e3f1ea; --over: #b00000; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #1b1e23; --text: #e6e8eb; --faint: #9aa3ad; --line: #3a4049; --best: #1d3a30; --over: #ff8080; }
}
body { margin: 0; padding: 12px 16px 32px; background: var(--ground); color: var(--text); font: 14px/1.4 system-ui, sans-serif; }
h1 { font-size: 18px; margin: 0; overflow-wrap: anywhere; }
p { color: var(--faint); margin: 2px 0 10px; max-width: 70em; overflow-wrap: anywhere; }
main { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; margin: 14px 0; }
caption { text-align: left; font-weight: 600; padding: 4px 0; }
th, td { padding: 2px 9px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { color: var(--faint); font-weight: 500; }
thead th:first-child { text-align: left; }
tbody th { font-weight: 500; }
th[scope=row]:first-child { text-align: left; }
td[colspan] { text-align: left; color: var(--over); white-space: normal; }
.best td, .best th { background: var(--best); font-weight: 600; }
.over td, .over th { color: var(--over); }
.part th { padding-left: 2em; font-weight: 400; }
.plots { display: flex; flex-wrap: wrap; gap: 12px 20px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; padding: 0; margin: 6px 0; list-style: none; font-size: 12px; }
.legend svg { width: 34px; height: 12px; vertical-align: -1px; }
.plots svg { width: 420px; max-width: 100%; height: auto; }
svg text { fill: var(--text); font-size: 11px; }
.rule td { text-align: left; white-space: normal; }
.gallery { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 640px), 1fr)); gap: 26px 36px; margin: 18px 0; }
.gallery.wide { grid-template-columns: minmax(0, 1fr); }
.gallery svg { display: block; width: 100%; height: auto; }
.gallery h2 { font-size: 15px; margin: 0; }
.gallery h2 small { color: var(--faint); font-weight: 400; }
.gallery p { margin: 0 0 4px; }
.gallery dl { display: flex; flex-wrap: wrap; gap: 2px 20px; margin: 0 0 7px; }
.gallery dt { color: var(--faint); font-size: 11px; }
.gallery dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
svg .on-dark text, svg .on-light text { font-size: 10px; text-anchor: middle; }
svg .on-dark text { fill: #ffffff; }
svg .on-light text { fill: #000000; }
svg .ranks text { fill: var(--faint); text-anchor: end; }
svg .ideal { stroke: var(--text); stroke-width: 1; stroke-dasharray: 3 3; fill: none; }
svg .faint { fill: var(--faint); }
svg .box { fill: var(--ground); stroke: var(--faint); }
svg .strong { fill: var(--best); }
svg .frame { fill: none; stroke: var(--line); }
svg .wire { stroke: var(--faint); stroke-opacity: 0.55; }
h2 { font-size: 15px; margin: 18px 0 6px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .cross { stroke: var(--over); stroke-width: 2; fill: none; }
)";

std::string cell(const std::string& text, bool is_header, std::size_t span) {
  const std::string spanning = span > 1 ? fmt::format(" colspan=\"{}\"", span) : "";
  const std::string content = html_escaped(text);
  return is_header ? fmt::format("<th scope=\"row\"{}>{}</th>", spanning, content)
                   : fmt::format("<td{}>{}</td>", spanning, content);
}

}  // namespace

std::string plain_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" "
      "href=\"data:,\">\n<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n"
      "<main>\n{2}</main>\n</body>\n</html>\n",
      html_escaped(title), style, body);
}

std::string html_table(const std::string& caption, const TextRow& header, const std::vector<HtmlRow>& rows,
                       std::size_t row_headers) {
  std::string html = fmt::format("<table><caption>{}</caption><thead><tr>", html_escaped(caption));
  for (const std::string& name : header) html += fmt::format("<th scope=\"col\">{}</th>", html_escaped(name));
  html += "</tr></thead><tbody>\n";
  for (const HtmlRow& row : rows) {
    html += row.row_class.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", row.row_class);
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const bool is_last = c + 1 == row.cells.size();
      html += cell(row.cells[c], c < row_headers, is_last ? header.size() - c : 1);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace simrun
