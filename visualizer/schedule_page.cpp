#include "visualizer/schedule_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedules/summary.h"
#include "visualizer/page.h"
#include "visualizer/page_tables.h"
#include "visualizer/plain_page.h"
#include "visualizer/quantity.h"

namespace simrun {

namespace {

constexpr std::size_t most_passes = 400'000;
constexpr Picoseconds longest_step = std::int64_t{1} << 52;  // what the page counts exactly
constexpr std::int64_t activation_bytes = std::int64_t{1} << 30;
constexpr Index pass_kinds = 4;

// 1 ms per unit, or where that is too much for the page, 1 us.
Picoseconds picoseconds_per_tick(const EvaluatedSchedule& schedule) {
  constexpr Picoseconds millisecond = 1'000'000'000 / ticks_per_unit;
  return schedule.times.makespan <= longest_step / millisecond ? millisecond : 1;
}

PassKind pass_kind(OpKind kind) {
  constexpr std::array kinds{PassKind::forward, PassKind::backward, PassKind::backward_input,
                             PassKind::backward_weight};
  return kinds[static_cast<std::size_t>(kind)];
}

// Chunks by direction, then stage.
Index chunk_of(const Op& op, int stages) {
  return static_cast<Index>(op.direction == Direction::down ? op.stage : stages + op.stage);
}

void add_chunks(const EvaluatedSchedule& schedule, int stages, Plan& plan) {
  const int directions = schedule.placement == Placement::bidirectional ? 2 : 1;
  const int ranks = schedule.shape.ranks;
  for (int direction = 0; direction < directions; ++direction)
    for (int stage = 0; stage < stages; ++stage) {
      const int rank = rank_of(schedule.placement, ranks, stage, static_cast<Direction>(direction));
      const int index = directions == 2 ? direction : stage / ranks;
      const auto chunk = static_cast<Index>(plan.chunks.size());
      plan.chunks.push_back({rank, index, stage, 0, 0, stage == 0, stage == stages - 1, 0});
      for (const char* name : {"forward", "backward", "backward-input", "backward-weight"}) {
        const auto kind = static_cast<OpKind>(plan.segments.size() % pass_kinds);
        plan.segments.push_back({fmt::format("stage {}{} {}", stage, direction == 1 ? " (up)" : "", name),
                                 pass_kind(kind),
                                 chunk,
                                 {}});
      }
    }
}

Program program_of(const RankOps& ops, int rank, int stages) {
  Program program;
  program.pipeline_rank = rank;
  for (const Op& op : ops) {
    const Index chunk = chunk_of(op, stages);
    const Index segment = pass_kinds * chunk + static_cast<Index>(op.kind);
    program.entries.push_back({segment, static_cast<Index>(program.bindings.size()), 1, Steps::every, 0});
    program.bindings.push_back({chunk, op.microbatch, op.slice, 0, op.direction});
  }
  return program;
}

Plan plan_of(const EvaluatedSchedule& schedule) {
  const PipelineShape& shape = schedule.shape;
  const int stages = stage_count(schedule.placement, shape.ranks, shape.virtual_stages);
  Plan plan;
  plan.job.name = schedule.name;
  plan.job.schedule = schedule.name;
  plan.job.pipeline_parallel = shape.ranks;
  plan.job.virtual_pipeline = shape.virtual_stages;
  plan.job.microbatches = shape.microbatches;
  plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute}};
  add_chunks(schedule, stages, plan);
  int peak = shape.memory_limit;
  for (const int of_rank : schedule.times.peak_in_flight_at_w) peak = std::max(peak, of_rank);
  plan.cluster.gpu.memory_bytes = peak * activation_bytes;
  plan.cluster.reserved_bytes = 0;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    plan.stages.push_back({{{rank, 1}}, {}});
    plan.programs.push_back(program_of(schedule.schedule[static_cast<std::size_t>(rank)], rank, stages));
  }
  return plan;
}

class RankDrawing {
 public:
  RankDrawing(const EvaluatedSchedule& schedule, std::size_t rank)
      : schedule_(schedule),
        ops_(schedule.schedule[rank]),
        rank_(rank),
        per_tick_(picoseconds_per_tick(schedule)) {
    timeline_.pipeline_rank = static_cast<std::int32_t>(rank);
    timeline_.device = static_cast<std::int64_t>(rank);
  }

  RankTimeline drawn() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      add_memory(i, OpKind::forward, +1);
      add_pass(i);
      add_memory(i, ops_[i].kind == OpKind::backward ? OpKind::backward : OpKind::backward_weight, -1);
    }
    add_totals();
    return std::move(timeline_);
  }

 private:
  Picoseconds start(std::size_t op) const { return schedule_.times.start[rank_][op] * per_tick_; }
  Picoseconds end(std::size_t op) const { return schedule_.times.end[rank_][op] * per_tick_; }

  // Where the forward of a pair that begins with `op` ends on the page.
  Picoseconds turn(std::size_t op) const {
    const PassTimes& times = schedule_.shape.times_of(ops_[op].stage);
    const auto whole = static_cast<double>(std::max<std::int64_t>(times.forward + times.backward, 1));
    const double share = static_cast<double>(times.forward) / whole;
    return start(op) + static_cast<Picoseconds>(static_cast<double>(end(op) - start(op)) * share);
  }

  void add_pass(std::size_t op) {
    const bool first = ops_[op].overlaps_next && op + 1 < ops_.size();
    const bool second = op > 0 && ops_[op - 1].overlaps_next;
    const Picoseconds from = second ? turn(op - 1) : start(op);
    const Picoseconds to = first ? turn(op) : end(op);
    timeline_.passes.push_back({from, to - from, static_cast<Index>(op)});
    timeline_.totals.compute += to - from;
  }

  void add_memory(std::size_t op, OpKind kind, int change) {
    if (ops_[op].kind != kind) return;
    live_ += change * activation_bytes;
    const PassInterval& last = timeline_.passes.empty() ? PassInterval{} : timeline_.passes.back();
    const Picoseconds time =
        change > 0 ? std::max(start(op), last.start + last.duration) : last.start + last.duration;
    MemoryEvent event;
    event.time = time;
    event.live[static_cast<std::size_t>(Category::activations)] = live_;
    timeline_.memory.push_back(event);
    if (live_ > timeline_.peak.bytes) timeline_.peak = {live_, event.live, static_cast<Index>(op), 0};
  }

  // Idle before the first backward, behind the last forward, and in between.
  void add_totals() {
    const Picoseconds step = schedule_.times.makespan * per_tick_;
    std::optional<Picoseconds> first_backward;
    Picoseconds last_forward = 0;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].kind == OpKind::forward) last_forward = end(i);
      if (ops_[i].kind != OpKind::forward && !first_backward) first_backward = start(i);
    }
    Picoseconds at = 0;
    const auto add_gap = [&](Picoseconds to) {
      const BubbleCause cause = at >= last_forward                    ? BubbleCause::drain
                                : to <= first_backward.value_or(step) ? BubbleCause::warm_up
                                                                      : BubbleCause::imbalance;
      timeline_.totals.bubble[static_cast<std::size_t>(cause)] += to - at;
    };
    for (const PassInterval& pass : timeline_.passes) {
      add_gap(pass.start);
      at = pass.start + pass.duration;
    }
    add_gap(step);
  }

  const EvaluatedSchedule& schedule_;
  const RankOps& ops_;
  std::size_t rank_;
  Picoseconds per_tick_;
  std::int64_t live_ = 0;
  RankTimeline timeline_;
};

std::string figures(const EvaluatedSchedule& schedule) {
  const ScheduleTimes& times = schedule.times;
  std::string html;
  const auto figure = [&](const char* name, const std::string& value, const char* meaning) {
    html += fmt::format("<div title=\"{}\"><dt>{}</dt><dd>{}</dd></div>", meaning, name, html_escaped(value));
  };
  figure("makespan", units_text(times.makespan), "end of the last pass, in units of the costs");
  figure("bubble", percent_text(times.bubble_ratio), "idle time of all ranks / (ranks x makespan)");
  figure("peak in flight",
         std::to_string(
             times.peak_in_flight_at_w.empty() ? 0 : *std::ranges::max_element(times.peak_in_flight_at_w)),
         "activations of one stage and microbatch, from F to W, on the fullest rank");
  figure("parameter copies", std::to_string(parameter_copies(schedule)),
         "ranks that hold each stage's weights");
  return fmt::format(
      "<p>{}: {} ranks, stages per rank: {}, {} microbatches. 1 {} is one unit of the costs, 1 GiB the "
      "activation of one stage and microbatch.</p>\n<dl>{}</dl>\n",
      html_escaped(schedule.name), schedule.shape.ranks, schedule.shape.virtual_stages,
      schedule.shape.microbatches, picoseconds_per_tick(schedule) == 1 ? "us" : "ms", html);
}

std::string idle_table(const EvaluatedSchedule& schedule) {
  const ScheduleTimes& times = schedule.times;
  std::vector<HtmlRow> rows;
  for (std::size_t rank = 0; rank < times.idle.size(); ++rank)
    rows.push_back(
        {{std::to_string(rank), units_text(times.makespan - times.idle[rank]), units_text(times.idle[rank]),
          units_text(times.span_idle[rank]), std::to_string(times.peak_in_flight_at_w[rank]),
          std::to_string(times.peak_in_flight_at_i[rank])},
         ""});
  return html_table("Idle time and activations in flight of each rank",
                    {"pp", "busy", "sync idle", "span idle", "peak (to W)", "peak (to I)"}, rows, 1);
}

}  // namespace

std::string schedule_page(const EvaluatedSchedule& schedule) {
  const Plan plan = plan_of(schedule);
  Timeline timeline;
  timeline.step = timeline.first_step = schedule.times.makespan * picoseconds_per_tick(schedule);
  for (std::size_t rank = 0; rank < schedule.schedule.size(); ++rank)
    timeline.ranks.push_back(RankDrawing(schedule, rank).drawn());
  return html_page(plan, timeline, summarize(plan, timeline),
                   {schedule.name, figures(schedule), idle_table(schedule)});
}

std::string page_refusal(const EvaluatedSchedule& schedule) {
  const std::size_t passes = op_count(schedule.schedule);
  if (passes > most_passes)
    return fmt::format("{} passes are more than the {} that a page can show", passes, most_passes);
  if (schedule.times.makespan > longest_step) return "the costs are too large for a page";
  return "";
}

}  // namespace simrun
