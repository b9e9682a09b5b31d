#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/summary.h"
#include "schedules/timeline.h"

namespace simrun {

// One self-contained HTML file: header numbers, idle and memory tables, and the pipeline drawn from what the
// Timeline recorded (Detail::passes gives pass boxes and memory, Detail::instructions the kernels in them as
// well). Fetches nothing, opens from disk. Text that users wrote is escaped. Pure: equal inputs give equal
// bytes. `note`: text under the numbers, e.g. how far off such predictions are.
std::string html_page(const Plan& plan, const Timeline& timeline, const Summary& summary,
                      const std::string& note = "");

// Beside it, rank by rank on the same axis, what was measured where the plan ran.
std::string html_page(const Plan& plan, const Timeline& timeline, const Timeline& measured,
                      const Summary& summary, const std::string& note = "");

// What was measured elsewhere. `plan`: the predicted one with what was measured behind it, of which
// `timeline` is. `tables`, `note`: text; the latter stands under the numbers, as above.
struct MeasuredElsewhere {
  const Plan& plan;
  const Timeline& timeline;
  std::string tables;
  std::string note = {};
};
std::string html_page(const Plan& plan, const Timeline& timeline, const MeasuredElsewhere& measured,
                      const Summary& summary);

// A run: its plan, what an engine recorded, and the numbers of both.
struct PageRun {
  const Plan& plan;
  const Timeline& timeline;
  const Summary& summary;
};

// What the script of a page that is open draws of a run: {"facts": {...}, "columns": "..."}, as the page has
// them in elements of those names.
std::string timeline_json(const PageRun& run);

// The same drawing under other numbers and tables.
struct PageText {
  std::string title;    // text
  std::string numbers;  // HTML
  std::string tables;   // HTML
};
std::string html_page(const Plan& plan, const Timeline& timeline, const Summary& summary,
                      const PageText& text);

// Two runs on one axis of time that begins with both steps, A above B, without links.
std::string html_page(const PageRun& a, const PageRun& b, const PageText& text);

}  // namespace simrun
