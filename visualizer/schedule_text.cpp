#include "visualizer/schedule_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "visualizer/quantity.h"
#include "visualizer/schedule_transfers.h"
#include "visualizer/text_table.h"

namespace simrun {

namespace {

constexpr std::size_t most_ranks = 128;  // of the table; --json has all

std::string sizes_text(const EvaluatedSchedule& schedule) {
  const PipelineShape& shape = schedule.shape;
  std::string text = fmt::format("{}  {} rank{}", schedule.name, shape.ranks, shape.ranks == 1 ? "" : "s");
  if (shape.virtual_stages > 1) text += fmt::format(" x {} stages", shape.virtual_stages);
  text += fmt::format("  {} microbatch{}", shape.microbatches, shape.microbatches == 1 ? "" : "es");
  if (schedule.placement == Placement::bidirectional)
    text += fmt::format(" ({} in each direction)", shape.microbatches / 2);
  if (shape.slices > 1) text += fmt::format(" x {} slices", shape.slices);
  return text;
}

bool has(const Schedule& schedule, OpKind kind) {
  return std::ranges::any_of(schedule, [&](const RankOps& ops) {
    return std::ranges::any_of(ops, [&](const Op& op) { return op.kind == kind; });
  });
}

bool has_pairs(const Schedule& schedule) {
  return std::ranges::any_of(schedule, [](const RankOps& ops) {
    return std::ranges::any_of(ops, [](const Op& op) { return op.overlaps_next; });
  });
}

// "F 1  B 2": times of the passes that occur.
std::string costs_text(const EvaluatedSchedule& schedule) {
  const PassTimes& times = schedule.shape.times;
  std::string text = "F " + units_text(times.forward);
  if (has(schedule.schedule, OpKind::backward)) text += "  B " + units_text(times.backward);
  if (has(schedule.schedule, OpKind::backward_input)) text += "  I " + units_text(times.backward_input);
  if (has(schedule.schedule, OpKind::backward_weight)) text += "  W " + units_text(times.backward_weight);
  if (has_pairs(schedule.schedule)) text += "  FB " + units_text(times.overlapped);
  if (times.communication > 0) text += "  communication " + units_text(times.communication);
  return text;
}

// How the grid writes what is more than a kind and a microbatch.
std::string legend(const EvaluatedSchedule& schedule) {
  std::string text = "F forward  B backward";
  if (has(schedule.schedule, OpKind::backward_input)) text += "  I backward-input  W backward-weight";
  if (schedule.placement == Placement::bidirectional)
    text += "  v down  ^ up the pipeline";
  else if (schedule.shape.virtual_stages > 1)
    text += "  a, b, ... the rank's stages";
  if (schedule.shape.slices > 1) text += "  .0, .1, ... slices";
  if (has_pairs(schedule.schedule)) text += "  F+B one overlapped step";
  return text;
}

std::string rank_table(const EvaluatedSchedule& schedule) {
  const ScheduleTimes& times = schedule.times;
  std::vector<TextRow> rows = {
      {"rank", "sync idle", "span idle", "peak in flight (to W)", "peak in flight (to I)"}};
  for (std::size_t rank = 0; rank < std::min(times.idle.size(), most_ranks); ++rank)
    rows.push_back({std::to_string(rank), units_text(times.idle[rank]), units_text(times.span_idle[rank]),
                    std::to_string(times.peak_in_flight_at_w[rank]),
                    std::to_string(times.peak_in_flight_at_i[rank])});
  std::string text = text_table(rows, {});
  if (times.idle.size() > most_ranks)
    text += fmt::format("and {} more ranks: --json lists them\n", times.idle.size() - most_ranks);
  return text;
}

int largest_of(const std::vector<int>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

std::string largest_units(const std::vector<std::int64_t>& values) {
  return values.empty() ? "0" : units_text(*std::ranges::max_element(values));
}

// What one (stage, microbatch) activation is, of all that a rank's layers keep for a microbatch.
std::string in_rank_activations(const EvaluatedSchedule& schedule) {
  const int parts = schedule.shape.virtual_stages * schedule.shape.slices;
  return significant(static_cast<double>(largest_of(schedule.times.peak_in_flight_at_w)) / parts, 3);
}

// Where the search started and how much a better order could save at most.
std::string search_text(const EvaluatedSchedule& schedule) {
  if (!schedule.search) return "";
  const double gap = gap_to_bound(schedule);
  std::string text = fmt::format("searched from {}; stages in a {}; ", schedule.search->start,
                                 to_string(schedule.placement));
  if (gap == 0) return text + "no order is shorter: the makespan is the proven lower bound\n";
  return text + fmt::format("no order takes less than {}: gap {}\n", units_text(schedule.search->lower_bound),
                            percent_text(gap));
}

}  // namespace

std::string schedule_text(const EvaluatedSchedule& schedule, const ScheduleTextOptions& options) {
  const ScheduleTimes& times = schedule.times;
  std::string text =
      fmt::format("{}  {}\n{}\n\n", sizes_text(schedule), costs_text(schedule), legend(schedule));
  text += schedule_grid_text(schedule, options);
  text += fmt::format("\nmakespan {}   bubble {}   parameter copies {}", units_text(times.makespan),
                      percent_text(times.bubble_ratio), parameter_copies(schedule));
  const int peak = largest_of(times.peak_in_flight_at_w);
  text += fmt::format("   peak {} activations of a stage", peak);
  if (schedule.shape.memory_limit > 0)
    text += fmt::format(" ({} the limit of {})", peak > schedule.shape.memory_limit ? "above" : "within",
                        schedule.shape.memory_limit);
  return text + "\n" + search_text(schedule) + rank_table(schedule);
}

std::string schedules_table(const std::vector<EvaluatedSchedule>& schedules,
                            const std::vector<RefusedSchedule>& refused) {
  std::vector<TextRow> rows = {{"schedule", "stages/rank", "bubble", "makespan", "sync idle", "span idle",
                                "peak", "of a rank", "copies", "transfers", ""}};
  for (const EvaluatedSchedule& schedule : schedules) {
    const ScheduleTimes& times = schedule.times;
    const int limit = schedule.shape.memory_limit;
    const int peak = largest_of(times.peak_in_flight_at_w);
    rows.push_back({schedule.name, std::to_string(schedule.shape.virtual_stages),
                    percent_text(times.bubble_ratio), units_text(times.makespan), largest_units(times.idle),
                    largest_units(times.span_idle), std::to_string(peak), in_rank_activations(schedule),
                    std::to_string(parameter_copies(schedule)),
                    fmt::format("{:.6g}", transfers_per_microbatch(schedule)),
                    limit > 0 && peak > limit ? fmt::format("above the limit of {}", limit) : ""});
  }
  std::string text = text_table(rows, {0, 10});
  text +=
      "idle: of the rank with most; peak: activations of one stage and microbatch (or slice) from F to W, on "
      "the\nfullest rank, and as a multiple of what all its stages keep for one microbatch; transfers: from "
      "rank to rank\nfor one microbatch; costs are per pass of a stage\n";
  for (const RefusedSchedule& refusal : refused)
    text += fmt::format("refused: {}: {}\n", refusal.name, refusal.why);
  return text;
}

}  // namespace simrun
