#include "visualizer/schedule_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "visualizer/page_tables.h"

namespace simrun {

namespace {

constexpr double gutter = 24;    // left of the lanes, for the ranks' numbers
constexpr double digit = 6.2;    // width of one, 10 units high
constexpr double gap = 3;        // between lanes
constexpr double lightest = .5;  // share of white in the last of a rank's stages

// Okabe and Ito's colours as in visualizer/src/colours.ts, by OpKind.
constexpr std::array<int, 4> pass_colours{0x0072b2, 0xe69f00, 0xd55e00, 0x009e73};

int mixed_with_white(int colour, double share) {
  int mixed = 0;
  for (const int shift : {16, 8, 0}) {
    const double channel = (colour >> shift) & 0xff;
    mixed |= static_cast<int>(std::lround(channel + (255 - channel) * share)) << shift;
  }
  return mixed;
}

// White reads better than black on it: by WCAG's relative luminance.
bool is_dark(int colour) {
  constexpr std::array<double, 3> weights{0.2126, 0.7152, 0.0722};
  double luminance = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double c = static_cast<double>((colour >> (16 - 8 * i)) & 0xff) / 255;
    luminance += weights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return luminance <= 0.179;
}

double lane_height(int ranks) { return ranks <= 8 ? 22 : ranks <= 16 ? 16 : ranks <= 32 ? 10 : 6; }

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
};

class Diagram {
 public:
  Diagram(const EvaluatedSchedule& schedule, const DiagramScale& scale)
      : schedule_(schedule), height_(lane_height(schedule.shape.ranks)) {
    const double makespan = static_cast<double>(schedule.times.makespan);
    const double busy = makespan * (1 - schedule.times.bubble_ratio);
    per_tick_ = busy > 0 ? scale.work / busy : 0;
    end_ = gutter + makespan * per_tick_;
    total_ = static_cast<double>(schedule.schedule.size()) * (height_ + gap);
    width_ = std::max(scale.width, end_ + 1);
    ideal_ = gutter + scale.work;
  }

  std::string svg() {
    for (std::size_t rank = 0; rank < schedule_.schedule.size(); ++rank) add_lane(rank);
    std::string text = fmt::format(
        "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}: passes of every rank over time\">",
        width_, total_, html_escaped(schedule_.name));
    text += fmt::format("<path fill=\"currentColor\" fill-opacity=\".08\" d=\"{}\"/>", lanes_);
    for (const auto& [colour, path] : paths_)
      text += fmt::format("<path fill=\"#{:06x}\" d=\"{}\"/>", colour, path);
    text += fmt::format("<path class=\"ideal\" d=\"M{0:.1f} 0V{1:.0f}\"/>", ideal_, total_ - gap);
    for (const bool dark : {true, false})
      if (!labels_[dark ? 1 : 0].empty())
        text += fmt::format("<g class=\"{}\">{}</g>", dark ? "on-dark" : "on-light", labels_[dark ? 1 : 0]);
    return text + "<g class=\"ranks\">" + numbers_ + "</g></svg>\n";
  }

 private:
  double x(std::int64_t ticks) const { return gutter + static_cast<double>(ticks) * per_tick_; }

  void add_lane(std::size_t rank) {
    const double top = static_cast<double>(rank) * (height_ + gap);
    lanes_ += outline({gutter, top, end_ - gutter, height_});
    const std::size_t every = height_ >= 10 ? 1 : 8;
    if (rank % every == 0)
      numbers_ +=
          fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\">{}</text>", gutter - 6, top + height_ / 2 + 3.5, rank);
    const RankOps& ops = schedule_.schedule[rank];
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const double from = x(schedule_.times.start[rank][i]);
      const double width = x(schedule_.times.end[rank][i]) - from;
      const bool first = ops[i].overlaps_next && i + 1 < ops.size();
      const bool second = i > 0 && ops[i - 1].overlaps_next;
      const double height = first || second ? height_ / 2 : height_;
      add_pass(ops[i], {from, top + (second ? height : 0), width, height});
    }
  }

  // Neighbours stay apart where they are wide enough.
  void add_pass(const Op& op, Rect box) {
    const int colour = colour_of(op);
    if (box.width > 3) box.width -= 0.7;
    paths_[colour] += outline(box);
    const std::string name = schedule_.shape.slices > 1 ? fmt::format("{}.{}", op.microbatch, op.slice)
                                                        : std::to_string(op.microbatch);
    if (box.height < 10 || digit * static_cast<double>(name.size()) > box.width) return;
    labels_[is_dark(colour) ? 1 : 0] +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", box.x + box.width / 2,
                    box.y + box.height / 2 + 3.5, name);
  }

  int colour_of(const Op& op) const {
    const bool both_ways = schedule_.placement == Placement::bidirectional;
    const int chunks = both_ways ? 2 : std::max(schedule_.shape.virtual_stages, 2);
    const int chunk = both_ways ? static_cast<int>(op.direction) : op.stage / schedule_.shape.ranks;
    const double share = lightest * static_cast<double>(chunk) / static_cast<double>(chunks - 1);
    return mixed_with_white(pass_colours[static_cast<std::size_t>(op.kind)], share);
  }

  static std::string outline(const Rect& box) {
    return fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", box.x, box.y, box.width, box.height,
                       box.width);
  }

  const EvaluatedSchedule& schedule_;
  double height_, per_tick_ = 0, end_ = 0, total_ = 0, width_ = 0, ideal_ = 0;
  std::string lanes_, numbers_;
  std::map<int, std::string> paths_;     // by colour
  std::array<std::string, 2> labels_{};  // on light boxes, on dark boxes
};

}  // namespace

std::string schedule_diagram(const EvaluatedSchedule& schedule, const DiagramScale& scale) {
  return Diagram(schedule, scale).svg();
}

std::string diagram_legend() {
  constexpr std::array names{"F forward", "B backward", "I backward-input", "W backward-weight"};
  std::string html = "<ul class=\"legend\">";
  for (std::size_t kind = 0; kind < names.size(); ++kind) {
    const int colour = pass_colours[kind];
    html += fmt::format(
        "<li><svg viewBox=\"0 0 34 12\" aria-hidden=\"true\"><path fill=\"#{:06x}\" d=\"M0 0h17v12h-17z\"/>"
        "<path fill=\"#{:06x}\" d=\"M17 0h17v12h-17z\"/></svg> {}</li>",
        colour, mixed_with_white(colour, lightest), names[kind]);
  }
  return html +
         "<li>lighter: a rank's later stages, or the second direction</li>"
         "<li>half boxes: an overlapped pair, F over B</li>"
         "<li>dashed: where a rank without idle time would end</li></ul>\n";
}

}  // namespace simrun
