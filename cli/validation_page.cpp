#include "cli/validation_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/validation_tables.h"
#include "visualizer/page_tables.h"
#include "visualizer/plain_page.h"
#include "visualizer/quantity.h"
#include "visualizer/scatter_plot.h"

namespace simrun {
namespace {

// A job's text is shown where the address names it.
constexpr const char* style =
    "<style>.job pre { display: none; } .job:target pre { display: block; } .job h3 { font-size: 13px; "
    "margin: 2px 0; "
    "font-weight: 400; } .job:target { background: var(--best); }</style>\n";

// Equal jobs are one; by text.
std::map<std::string, std::size_t> number_jobs(const std::vector<ValidatedRow>& rows) {
  std::map<std::string, std::size_t> jobs;
  for (const ValidatedRow& row : rows) jobs.emplace(row.yaml, jobs.size());
  return jobs;
}

class ValidationPage {
 public:
  ValidationPage(const ValidationScores& scores, const std::vector<ValidatedRow>& rows)
      : scores_(scores), rows_(rows), jobs_(number_jobs(rows)) {
    for (const SourceScore& source : scores.sources) series_.push_back(source.source);
    rows_of_job_.resize(jobs_.size());
    for (const ValidatedRow& row : rows) rows_of_job_[jobs_.at(row.yaml)].push_back(&row);
  }

  std::string text() const {
    std::string body =
        style + fmt::format(
                    "<p>{} On the dashed line a prediction is what was measured; the grey ones are "
                    "20 % off. A point leads to its job.</p>\n",
                    html_escaped(validation_headline(scores_, rows_)));
    body += "<h2>Step time</h2>\n" + scatter_plot(plot("step time", "s", &ValidatedRow::is_time));
    body += "<h2>Memory</h2>\n" + scatter_plot(plot("memory", "GB", &ValidatedRow::is_memory));
    for (const ValidationTable& table : validation_tables(scores_)) body += html_of(table);
    body += "<h2>Rows and their jobs</h2>\n";
    for (const auto& [yaml, number] : jobs_by_number()) body += job(*yaml, number);
    return plain_page("Predicted and measured", body);
  }

 private:
  static std::string html_of(const ValidationTable& table) {
    std::vector<HtmlRow> rows;
    for (std::size_t r = 1; r < table.rows.size(); ++r) rows.push_back({table.rows[r], ""});
    return html_table(table.rows.front().front(), table.rows.front(), rows, 1);
  }

  ScatterPlot plot(const std::string& what, const std::string& unit,
                   bool (ValidatedRow::*is_shown)() const) const {
    ScatterPlot plot{"predicted against measured " + what,
                     fmt::format("measured {} [{}]", what, unit),
                     fmt::format("predicted {} [{}]", what, unit),
                     series_,
                     {}};
    for (const ValidatedRow& row : rows_) {
      const bool is_scored = row.set.empty() && row.counts && row.status == RowStatus::scored;
      if (!is_scored || !(row.*is_shown)()) continue;
      plot.points.push_back(point(row));
    }
    return plot;
  }

  ScatterPoint point(const ValidatedRow& row) const {
    const auto series = std::ranges::find(series_, row.source) - series_.begin();
    ScatterPoint point{row.measured(), *row.predicted, static_cast<std::size_t>(series), label(row),
                       fmt::format("#job-{}", jobs_.at(row.yaml))};
    if (row.is_time()) {
      // A throughput that is higher by a factor is a step that is shorter by it.
      const double step = row.simulated->summary.step_time_s;
      const double ratio = *row.predicted / row.measured();
      const bool is_step = row.row[Column::measured_metric] == "iter_time_s";
      point.x = is_step ? step / ratio : step * ratio;
      point.y = step;
    }
    return point;
  }

  static std::string label(const ValidatedRow& row) {
    const std::string start = fmt::format("{} ({}): {} {}", row.row[Column::id], row.source,
                                          row.row[Column::measured_metric], row.row[Column::measured_value]);
    if (row.status == RowStatus::unscored) return start + ", unscored: " + row.why;
    if (!row.predicted) return start;
    return fmt::format("{}, predicted {} ({:+.1f} %)", start, significant(*row.predicted, 4),
                       100 * row.error().value_or(0));
  }

  std::vector<std::pair<const std::string*, std::size_t>> jobs_by_number() const {
    std::vector<std::pair<const std::string*, std::size_t>> jobs;
    for (const auto& [yaml, number] : jobs_) jobs.emplace_back(&yaml, number);
    std::ranges::sort(jobs, {}, [](const auto& job) { return job.second; });
    return jobs;
  }

  std::string job(const std::string& yaml, std::size_t number) const {
    std::string html = fmt::format("<section class=\"job\" id=\"job-{}\">", number), assumed;
    for (const ValidatedRow* row : rows_of_job_[number]) {
      html += fmt::format("<h3><a href=\"#job-{}\">{}</a></h3>", number, html_escaped(label(*row)));
      assumed = fmt::format("{}", fmt::join(row->assumed, "; "));
    }
    const std::string comment = assumed.empty() ? "" : "# assumed: " + assumed + "\n";
    return html + "<pre>" + html_escaped(comment + yaml) + "</pre></section>\n";
  }

  const ValidationScores& scores_;
  const std::vector<ValidatedRow>& rows_;
  std::map<std::string, std::size_t> jobs_;
  std::vector<std::vector<const ValidatedRow*>> rows_of_job_;
  std::vector<std::string> series_;
};

}  // namespace

std::string validation_page(const ValidationScores& scores, const std::vector<ValidatedRow>& rows) {
  return ValidationPage(scores, rows).text();
}

}  // namespace simrun
