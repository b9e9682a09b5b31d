#include "visualizer/schedule_gallery.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/pipeline_schedule.h"
#include "visualizer/page_tables.h"
#include "visualizer/plain_page.h"
#include "visualizer/quantity.h"
#include "visualizer/schedule_diagram.h"
#include "visualizer/schedule_transfers.h"

namespace simrun {

namespace {

constexpr std::size_t most_passes = 400'000;
constexpr int most_beside = 24;  // passes of a kind on a rank, for two diagrams side by side

// "1..4", or "4" where all ranks are alike.
template <typename Number>
std::string range_text(const std::vector<Number>& values) {
  if (values.empty()) return "0";
  const auto [least, most] = std::ranges::minmax(values);
  return least == most ? fmt::format("{}", most) : fmt::format("{}..{}", least, most);
}

std::string range_of_units(const std::vector<std::int64_t>& ticks) {
  if (ticks.empty()) return "0";
  const auto [least, most] = std::ranges::minmax(ticks);
  return least == most ? units_text(least) : units_text(least) + ".." + units_text(most);
}

struct Figures {
  std::string stages, bubble, makespan, span_idle, in_flight, of_a_rank, copies, transfers, sent;
};

Figures figures_of(const EvaluatedSchedule& schedule) {
  const PipelineShape& shape = schedule.shape;
  const std::vector<int>& peaks = schedule.times.peak_in_flight_at_w;
  const double most = peaks.empty() ? 0 : *std::ranges::max_element(peaks);
  const int limit = shape.memory_limit;
  return {
      std::to_string(shape.virtual_stages),
      percent_text(schedule.times.bubble_ratio),
      units_text(schedule.times.makespan),
      range_of_units(schedule.times.span_idle),
      range_text(peaks) + (limit > 0 && most > limit ? fmt::format(", above the limit of {}", limit) : ""),
      fmt::format("{:.3g}", most / (shape.virtual_stages * shape.slices)),
      std::to_string(parameter_copies(schedule)),
      fmt::format("{:.6g}", transfers_per_microbatch(schedule)),
      range_text(results_sent(schedule))};
}

std::string comparison(const std::vector<EvaluatedSchedule>& schedules) {
  std::vector<HtmlRow> rows;
  for (const EvaluatedSchedule& schedule : schedules) {
    const Figures of = figures_of(schedule);
    rows.push_back({{schedule.name, of.bubble, of.span_idle, of.makespan, of.stages, of.in_flight,
                     of.of_a_rank, of.copies, of.transfers, of.sent},
                    ""});
  }
  return html_table(
             "Best first",
             {"schedule", "bubble", "span idle, by rank", "makespan", "stages per rank", "in flight, by rank",
              "of a rank", "parameter copies", "transfers per microbatch", "sent, by rank"},
             rows, 1) +
         "<p>Bubble: idle time of all ranks / (ranks x makespan). Span idle: what a rank idles between its "
         "first and its last pass, all that is left if the next step may start rank by rank. In flight: most "
         "activations of one stage and microbatch (or slice) alive at once, from F to W, on the rank with "
         "fewest and with most; of a rank: the most, as a multiple of what all stages of a rank keep for one "
         "microbatch. Transfers: results handed to another rank, forward and backward; sent: by a rank in "
         "the "
         "whole step. Makespans are in units of the costs, which are per pass of a stage: with two stages "
         "per "
         "rank a pass is half as much of the model.</p>\n";
}

std::string section(const EvaluatedSchedule& schedule, const DiagramScale& scale) {
  const Figures of = figures_of(schedule);
  const PipelineShape& shape = schedule.shape;
  const ScheduleEntry* entry = find_schedule(schedule.name);
  const std::string description =
      entry == nullptr ? "searched for these sizes and costs" : entry->description;
  std::string html;
  const auto figure = [&](const char* name, const std::string& value) {
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
  };
  figure("bubble", of.bubble);
  figure("makespan", of.makespan);
  figure("in flight", of.in_flight);
  figure("of a rank", of.of_a_rank);
  figure("parameter copies", of.copies);
  figure("transfers", of.transfers);
  const std::string sizes =
      shape.virtual_stages > 1 ? fmt::format(" &times; {} stages per rank", shape.virtual_stages) : "";
  const std::string slices = shape.slices > 1 ? fmt::format(" &times; {} slices", shape.slices) : "";
  return fmt::format(
      "<section id=\"{0}\"><h2>{0}<small>{1}{2}</small></h2><p>{3}</p><dl>{4}</dl>\n{5}</section>\n",
      html_escaped(schedule.name), sizes, slices, html_escaped(description), html,
      schedule_diagram(schedule, scale));
}

// The longest schedule fills the width.
DiagramScale common_scale(const std::vector<EvaluatedSchedule>& schedules, bool is_wide) {
  DiagramScale scale;
  scale.width = is_wide ? 1480 : 720;
  double longest = 1;
  for (const EvaluatedSchedule& schedule : schedules)
    longest = std::max(longest, 1 / std::max(1 - schedule.times.bubble_ratio, 0.05));
  scale.work = (scale.width - 30) / longest;
  return scale;
}

std::string refusals(const std::vector<RefusedSchedule>& refused) {
  if (refused.empty()) return "";
  std::vector<HtmlRow> rows;
  rows.reserve(refused.size());
  for (const RefusedSchedule& refusal : refused) rows.push_back({{refusal.name, refusal.why}, "rule"});
  return html_table("Refused, and by which rule", {"schedule", "rule"}, rows, 1);
}

}  // namespace

std::string gallery_refusal(const std::vector<EvaluatedSchedule>& schedules) {
  std::size_t passes = 0;
  for (const EvaluatedSchedule& schedule : schedules) passes += op_count(schedule.schedule);
  if (passes <= most_passes) return "";
  return fmt::format("{} passes are more than the {} that a page can show", passes, most_passes);
}

std::string schedule_gallery(const std::vector<EvaluatedSchedule>& schedules,
                             const std::vector<RefusedSchedule>& refused, const PipelineShape& asked) {
  const PassTimes& times = asked.times;
  std::string html = fmt::format(
      "<p>F {}, B {}, I {}, W {}, an overlapped pair {}, from a pass to its result on another rank {}. The "
      "diagrams are drawn so that a rank's work is equally wide in all: the shorter, the better.</p>\n",
      units_text(times.forward), units_text(times.backward), units_text(times.backward_input),
      units_text(times.backward_weight), units_text(times.overlapped), units_text(times.communication));
  int passes = 0;
  for (const EvaluatedSchedule& schedule : schedules) {
    const PipelineShape& shape = schedule.shape;
    passes = std::max(passes, shape.microbatches * shape.virtual_stages * shape.slices);
  }
  const bool is_wide = passes > most_beside;
  const DiagramScale scale = common_scale(schedules, is_wide);
  html += comparison(schedules) + diagram_legend();
  html += fmt::format("<div class=\"gallery{}\">\n", is_wide ? " wide" : "");
  for (const EvaluatedSchedule& schedule : schedules) html += section(schedule, scale);
  html += "</div>\n" + refusals(refused);
  return plain_page(
      fmt::format("Pipeline schedules: {} ranks, {} microbatches", asked.ranks, asked.microbatches), html);
}

}  // namespace simrun
