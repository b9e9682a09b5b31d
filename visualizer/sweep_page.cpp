#include "visualizer/sweep_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "visualizer/page_tables.h"
#include "visualizer/plain_page.h"
#include "visualizer/sweep_plot.h"

namespace simrun {

namespace {

std::string introduction(const Sweep& sweep) {
  std::string keys;
  for (const SweepKey& key : sweep.keys) keys += (keys.empty() ? "" : " x ") + key.key;
  const auto count = [&](auto has) { return std::ranges::count_if(sweep.rows, has); };
  const auto refused = count([](const SweepRow& row) { return !row.numbers; });
  const auto misfits = count([](const SweepRow& row) { return row.numbers && !row.numbers->fits; });
  return fmt::format("<p>{}: {} points, {} refused, {} do not fit in memory.{}</p>\n", html_escaped(keys),
                     sweep.rows.size(), refused, misfits,
                     best_row(sweep) ? fmt::format(" Shaded: most {} per second and GPU of those that fit.",
                                                   sweep_units(sweep).samples)
                                     : "");
}

std::string row_class(const Sweep& sweep, std::size_t row, std::optional<std::size_t> best) {
  if (!sweep.rows[row].numbers) return "refused";
  if (!sweep.rows[row].numbers->fits) return "over";
  return row == best ? "best" : "";
}

}  // namespace

std::string sweep_page(const Sweep& sweep) {
  const SweepUnits units = sweep_units(sweep);
  const std::optional<std::size_t> best = best_row(sweep);
  TextRow header = short_keys(sweep.keys);
  for (const std::string& name : sweep_columns(units)) header.push_back(name);
  std::vector<HtmlRow> rows;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    HtmlRow row{sweep.rows[r].values, row_class(sweep, r, best)};
    for (const std::string& cell : sweep_cells(sweep.rows[r], units)) row.cells.push_back(cell);
    rows.push_back(std::move(row));
  }
  const std::string table = html_table("Every point of the sweep", header, rows, sweep.keys.size());
  return plain_page("sweep of " + sweep.name, introduction(sweep) + sweep_plot(sweep) + table);
}

}  // namespace simrun
