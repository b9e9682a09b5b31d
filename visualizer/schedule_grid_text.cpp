#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "visualizer/schedule_text.h"

namespace simrun {

namespace {

constexpr std::int64_t most_lines = 240;  // of a grid that is folded
constexpr std::int64_t finest_cells = 4;  // a pass takes at least 1 cell, the shortest at most this many

// Okabe and Ito's colours as the page has them, nearest ANSI 256-colour codes: F blue, B orange, I vermilion,
// W green.
constexpr std::array<const char*, 4> box_colours{"48;5;25;38;5;231", "48;5;214;38;5;16", "48;5;166;38;5;16",
                                                 "48;5;36;38;5;16"};

// A pass on the axis of cells.
struct Box {
  std::int64_t from = 0;
  std::int64_t to = 0;
  OpKind kind = OpKind::forward;
  bool joined = false;  // to the box behind it: an overlapped pair
  std::string label;
};

class Grid {
 public:
  Grid(const EvaluatedSchedule& schedule, const ScheduleTextOptions& options)
      : schedule_(schedule), options_(options) {
    cell_ = cell_duration();
    measure();
  }

  std::string text() const {
    std::string text;
    for (std::int64_t first = 0; first < shown_; first += per_line_) {
      if (cells_ > per_line_)
        text += fmt::format("{}t = {}\n", first == 0 ? "" : "\n", units_text(first * cell_));
      const std::int64_t last = std::min(first + per_line_, shown_);
      for (std::size_t rank = 0; rank < boxes_.size(); ++rank)
        text += fmt::format("rank {:<{}} {}\n", rank, rank_digits_, line(boxes_[rank], first, last));
    }
    return text + notes();
  }

 private:
  // Time of one cell: what divides all passes that occur, if the shortest is then not too wide; else the
  // shortest.
  std::int64_t cell_duration() {
    std::int64_t divisor = 0;
    std::int64_t shortest = 0;
    const ScheduleTimes& times = schedule_.times;
    for (std::size_t rank = 0; rank < times.start.size(); ++rank)
      for (std::size_t i = 0; i < times.start[rank].size(); ++i) {
        const std::int64_t duration = times.end[rank][i] - times.start[rank][i];
        if (duration == 0) continue;
        divisor = std::gcd(divisor, duration);
        shortest = shortest == 0 ? duration : std::min(shortest, duration);
      }
    if (shortest == 0) return 1;
    return shortest / divisor <= finest_cells ? divisor : shortest;
  }

  std::int64_t to_cells(std::int64_t ticks) const { return (ticks + cell_ / 2) / cell_; }

  // Labels give the width of a cell, that the length of a line, that what can be shown.
  void measure() {
    const auto ranks = static_cast<std::int64_t>(schedule_.schedule.size());
    rank_digits_ = std::to_string(std::max<std::int64_t>(ranks - 1, 0)).size();
    const PipelineShape& shape = schedule_.shape;
    cell_width_ = label({OpKind::forward, 0, shape.microbatches - 1, shape.slices - 1}).size() + 1;
    if (to_cells(shape.times.overlapped) < 2) cell_width_ *= 2;  // room for both labels of a pair
    const auto columns =
        std::max<std::int64_t>(options_.width, 40) - 6 - static_cast<std::int64_t>(rank_digits_);
    cells_ = to_cells(schedule_.times.makespan);
    per_line_ = std::max<std::int64_t>(columns / static_cast<std::int64_t>(cell_width_), 1);
    const std::int64_t folds = (cells_ + per_line_ - 1) / per_line_;
    const std::int64_t most_folds = std::max<std::int64_t>(most_lines / (ranks + 2), 1);
    if (folds <= most_folds) per_line_ = (cells_ + folds - 1) / std::max<std::int64_t>(folds, 1);
    shown_ = std::min(cells_, most_folds * per_line_);
    for (std::size_t rank = 0; rank < schedule_.schedule.size(); ++rank) boxes_.push_back(boxes_of(rank));
  }

  // F3, or with several stages on a rank F3a, F3b; of two directions F3v (down) and F3^ (up); of slices F3.1.
  std::string label(const Op& op) const {
    std::string text = fmt::format("{}{}", "FBIW"[static_cast<std::size_t>(op.kind)], op.microbatch);
    if (schedule_.shape.slices > 1) text += fmt::format(".{}", op.slice);
    if (schedule_.placement == Placement::bidirectional)
      text += op.direction == Direction::down ? 'v' : '^';
    else if (schedule_.shape.virtual_stages > 1)
      text += static_cast<char>('a' + op.stage / schedule_.shape.ranks % 26);
    return text;
  }

  std::vector<Box> boxes_of(std::size_t rank) const {
    const RankOps& ops = schedule_.schedule[rank];
    const ScheduleTimes& times = schedule_.times;
    std::vector<Box> boxes;
    for (std::size_t i = 0; i < ops.size() && to_cells(times.start[rank][i]) < shown_; ++i) {
      Box box = {to_cells(times.start[rank][i]), to_cells(times.end[rank][i]), ops[i].kind, false,
                 label(ops[i])};
      if (ops[i].overlaps_next && i + 1 < ops.size()) {
        Box partner = {box.from, box.to, ops[i + 1].kind, false, label(ops[i + 1])};
        box.joined = true;
        const PassTimes& of = schedule_.shape.times_of(ops[i].stage);
        const std::int64_t both = std::max<std::int64_t>(of.forward + of.backward, 1);
        const auto share = static_cast<double>(of.forward) / static_cast<double>(both);
        const auto cells = static_cast<std::int64_t>(static_cast<double>(box.to - box.from) * share);
        box.to = partner.from = box.from + std::max<std::int64_t>(cells, 1);
        if (partner.from >= partner.to) box.label += '+' + partner.label;
        boxes.push_back(std::move(box));
        box = std::move(partner);
        ++i;
      }
      if (box.to > box.from) boxes.push_back(std::move(box));
    }
    return boxes;
  }

  std::string line(const std::vector<Box>& boxes, std::int64_t first, std::int64_t last) const {
    std::string text;
    std::int64_t at = first;
    auto box = std::partition_point(boxes.begin(), boxes.end(), [&](const Box& b) { return b.to <= first; });
    for (; box != boxes.end() && box->from < last; ++box) {
      text += idle(std::max(box->from, first) - at);
      at = std::min(box->to, last);
      text += drawn(*box, std::max(box->from, first), at);
    }
    text += idle(last - at);
    if (!options_.color) text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  std::string idle(std::int64_t cells) const {
    std::string text;
    for (std::int64_t i = 0; i < cells; ++i)
      text += (options_.color ? std::string(" ") : std::string(".")) + std::string(cell_width_ - 1, ' ');
    return text;
  }

  // The part of a box between two cells: its label where it begins, then dashes if it is longer than a cell
  // (or a coloured ground).
  std::string drawn(const Box& box, std::int64_t from, std::int64_t to) const {
    const std::size_t width = static_cast<std::size_t>(to - from) * cell_width_;
    std::string text = from == box.from ? box.label : "";
    const bool plain = options_.color || box.to - box.from == 1;
    text.resize(std::max(text.size(), width), plain ? ' ' : '-');
    text.resize(width);
    if (options_.color)
      return fmt::format("\x1b[{}m{}\x1b[0m", box_colours[static_cast<std::size_t>(box.kind)], text);
    text.back() = box.joined && to == box.to ? '+' : ' ';
    return text;
  }

  std::string notes() const {
    if (schedule_.times.makespan == 0) return "no pass takes time: --dry lists every op\n";
    std::string text;
    if (shown_ < cells_)
      text += fmt::format("cut at t = {} of {}: --dry lists every op, the page draws them\n",
                          units_text(shown_ * cell_), units_text(schedule_.times.makespan));
    return text;
  }

  const EvaluatedSchedule& schedule_;
  ScheduleTextOptions options_;
  std::int64_t cell_ = 1;  // ticks
  std::size_t cell_width_ = 1;
  std::size_t rank_digits_ = 1;
  std::int64_t cells_ = 0;
  std::int64_t per_line_ = 1;
  std::int64_t shown_ = 0;
  std::vector<std::vector<Box>> boxes_;  // by rank
};

}  // namespace

std::string schedule_grid_text(const EvaluatedSchedule& schedule, const ScheduleTextOptions& options) {
  return Grid(schedule, options).text();
}

}  // namespace simrun
