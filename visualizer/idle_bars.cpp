#include "visualizer/idle_bars.h"

#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "visualizer/page_tables.h"
#include "visualizer/quantity.h"

namespace simrun {

namespace {

struct BarPart {
  std::string name;
  const char* colour;  // Okabe and Ito's palette, as in visualizer/src/colours.ts
  const char* ink;     // of text on it
  double share;        // of the step
};

const char* colour_of(BubbleCause cause) {
  switch (cause) {
    case BubbleCause::warm_up: return "#e69f00";
    case BubbleCause::drain: return "#d55e00";
    case BubbleCause::imbalance: return "#f0e442";
    case BubbleCause::p2p: return "#56b4e9";
  }
  return "";
}

const char* colour_of(Traffic traffic) {
  switch (traffic) {
    case Traffic::tensor: return "#cc79a7";
    case Traffic::context: return "#ddaacc";
    case Traffic::expert: return "#b8609a";
    case Traffic::data: return "#009e73";
    case Traffic::pipeline: return "#8ad0f5";
    case Traffic::offload: return "#999999";
    case Traffic::compute: break;
  }
  return "#bbbbbb";
}

std::vector<BarPart> parts_of(const StageSummary& stage, double step_s) {
  std::vector<BarPart> parts{{"compute", "#0072b2", "#ffffff", stage.compute_s / step_s}};
  for (const BubbleCause cause :
       {BubbleCause::warm_up, BubbleCause::imbalance, BubbleCause::p2p, BubbleCause::drain})
    parts.push_back({short_name(cause), colour_of(cause), "#000000",
                     stage.bubble_by_cause_s[static_cast<std::size_t>(cause)] / step_s});
  for (std::size_t t = 0; t < traffic_count; ++t)
    parts.push_back({fmt::format("exposed {}", short_name(static_cast<Traffic>(t))),
                     colour_of(static_cast<Traffic>(t)), "#000000", stage.exposed_by_traffic_s[t] / step_s});
  return parts;
}

constexpr double bar_width = 640, label_width = 52;  // CSS pixels
constexpr double bar_height = 16, bar_pitch = 19;
constexpr double narrowest_text = 44;  // that holds "12.3 %"

std::string bar(const StageSummary& stage, std::size_t place, double step_s) {
  const double top = bar_pitch * static_cast<double>(place);
  const double middle = top + bar_height / 2;
  std::string html = fmt::format("<text x=\"0\" y=\"{:.1f}\">pp {}</text>\n", middle, stage.pipeline_rank);
  double left = label_width;
  for (const BarPart& part : parts_of(stage, step_s)) {
    const double width = part.share * bar_width;
    if (width <= 0) continue;
    html += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>pp {} {}: {} "
        "({})</title></rect>\n",
        left, top, width, bar_height, part.colour, stage.pipeline_rank, part.name, percent_text(part.share),
        seconds_text(part.share * step_s));
    if (width >= narrowest_text)
      html +=
          fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" style=\"fill:{}\">{}</text>\n",
                      left + width / 2, middle, part.ink, percent_text(part.share));
    left += width;
  }
  return html;
}

std::string legend(const Summary& summary) {
  std::string html;
  const std::size_t kinds = parts_of(summary.stages.front(), summary.step_time_s).size();
  for (std::size_t k = 0; k < kinds; ++k) {
    bool occurs = false;
    for (const StageSummary& stage : summary.stages)
      occurs |= parts_of(stage, summary.step_time_s)[k].share > 0;
    const BarPart part = parts_of(summary.stages.front(), summary.step_time_s)[k];
    if (occurs)
      html += fmt::format("<span><i style=\"background:{}\"></i> {}</span>\n", part.colour,
                          html_escaped(part.name));
  }
  return html;
}

}  // namespace

std::string idle_bars(const Summary& summary) {
  if (summary.stages.empty() || !(summary.step_time_s > 0)) return "";
  std::string bars;
  for (std::size_t i = 0; i < summary.stages.size(); ++i)
    bars += bar(summary.stages[i], i, summary.step_time_s);
  return fmt::format(
      "<figure><figcaption>Why each pipeline rank waits (shares of the step; the table below has the times)"
      "</figcaption><svg class=\"idle\" role=\"img\" aria-label=\"One bar per pipeline rank: compute, idle "
      "time "
      "by cause, exposed communication. The table of times holds the numbers.\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n{2}</svg>\n"
      "<div class=\"legend\">{3}</div></figure>\n",
      label_width + bar_width, bar_pitch * static_cast<double>(summary.stages.size()), bars, legend(summary));
}

}  // namespace simrun
