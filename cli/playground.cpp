#include "cli/playground.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "cli/console.h"
#include "cli/outputs.h"
#include "configs/diagnostics.h"
#include "schedules/schedule_grid.h"
#include "schedules/schedule_search.h"
#include "visualizer/schedule_gallery.h"
#include "visualizer/schedule_json.h"
#include "visualizer/schedule_page.h"
#include "visualizer/schedule_text.h"

namespace simrun {
namespace {

// The sizes that the schedule gets where none were given. Some count the two directions as two stages per
// rank.
PipelineShape shape_for(const ScheduleEntry& entry, PipelineShape shape) {
  const bool counts_directions = entry.placement == Placement::bidirectional && shape.virtual_stages == 2;
  if (shape.virtual_stages == 0 || counts_directions) shape.virtual_stages = entry.default_virtual_stages;
  if (shape.slices == 0) shape.slices = 1;
  return shape;
}

EvaluatedSchedule evaluated(const std::string& name, Placement placement, const PipelineShape& shape,
                            Schedule schedule) {
  ScheduleTimes times = evaluate(schedule, shape);
  return {name, placement, shape, std::move(schedule), std::move(times)};
}

EvaluatedSchedule evaluated(const ScheduleEntry& entry, const PipelineShape& shape) {
  return evaluated(entry.name, entry.placement, shape, entry.build(shape));
}

constexpr std::int64_t effort_in_table = 4'000'000;  // passes: not much longer than all other rows together

SearchOptions search_options(const ScheduleRequest& request) {
  SearchOptions options;
  if (request.schedule == "all") options.effort = effort_in_table;
  if (request.search_effort > 0) options.effort = request.search_effort;
  return options;
}

PipelineShape shape_for_search(PipelineShape shape) {
  shape.virtual_stages = std::max(shape.virtual_stages, 1);
  shape.slices = std::max(shape.slices, 1);
  return shape;
}

// REQUIRES: best_order_refusal() has none for them.
EvaluatedSchedule searched(const PipelineShape& shape, const SearchOptions& options) {
  SearchResult found = best_order(shape, options);
  EvaluatedSchedule schedule = evaluated("auto", found.placement, shape, std::move(found.schedule));
  schedule.search = ScheduleSearch{found.seed, found.lower_bound};
  return schedule;
}

EvaluatedSchedule from_file(const ScheduleRequest& request) {
  const std::string& path = request.schedule;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw ConfigError({{{path, 0, 0}, "cannot be read", ""}});
  ScheduleFile read = read_schedule_csv(text, path);
  read.shape.times = request.shape.times;
  read.shape.memory_limit = request.shape.memory_limit;
  if (read.communication_actions > 0)
    complain(
        fmt::format("simrun: {}: {} communication actions are read over: results are there {} after the "
                    "pass that makes them\n",
                    path, read.communication_actions, units_text(read.shape.times.communication)));
  return evaluated(path, read.placement, read.shape, std::move(read.schedule));
}

EvaluatedSchedule one_schedule(const ScheduleRequest& request) {
  if (request.from_file) return from_file(request);
  const auto refuse_with = [&](const std::string& refusal) {
    if (!refusal.empty()) throw ConfigError({{{"--schedule " + request.schedule, 0, 0}, refusal, ""}});
  };
  if (request.schedule == "auto") {
    const PipelineShape shape = shape_for_search(request.shape);
    refuse_with(best_order_refusal(shape, search_options(request)));
    return searched(shape, search_options(request));
  }
  const ScheduleEntry& entry = *find_schedule(request.schedule);
  const PipelineShape shape = shape_for(entry, request.shape);
  refuse_with(entry.refusal(shape));
  return evaluated(entry, shape);
}

std::optional<std::string> page_of(const Options& options, const EvaluatedSchedule& schedule) {
  if (options.no_html || options.schedule_flags.dry) return std::nullopt;
  if (options.html) return options.html;
  if (options.json) return std::nullopt;
  return fmt::format("{}-p{}-m{}.html", std::filesystem::path(schedule.name).stem().string(),
                     schedule.shape.ranks, schedule.shape.microbatches);
}

std::string write_files(const Options& options, const EvaluatedSchedule& schedule) {
  std::vector<std::string> outputs;
  std::optional<std::string> page = page_of(options, schedule);
  std::string wrote;
  if (const std::string refusal = page ? page_refusal(schedule) : ""; !refusal.empty()) {
    complain("simrun: no page: " + refusal + "\n");
    page.reset();
  }
  if (page) outputs.push_back(*page);
  if (options.schedule_csv) outputs.push_back(*options.schedule_csv);
  const std::string& name = schedule.name;
  probe_outputs(outputs,
                name.ends_with(".csv") ? std::vector<std::string>{name} : std::vector<std::string>{});
  if (page) wrote += write_reported(*page, schedule_page(schedule));
  if (options.schedule_csv) wrote += write_reported(*options.schedule_csv, to_csv(schedule.schedule));
  return wrote;
}

void show(const Options& options, const EvaluatedSchedule& schedule) {
  const std::string wrote = write_files(options, schedule);
  if (options.json) {
    print(schedule_json(schedule));
  } else if (options.schedule_flags.dry) {
    print(to_text(schedule.schedule));
  } else if (!options.quiet) {
    print(schedule_text(schedule, {use_color(options.color), terminal_width()}) + wrote);
  }
}

// Schedules above the memory limit last; then fewer bubbles, less memory of a rank's, the table's order.
auto rank_in_table(const EvaluatedSchedule& schedule) {
  const auto& peaks = schedule.times.peak_in_flight_at_w;
  const int peak = peaks.empty() ? 0 : *std::ranges::max_element(peaks);
  const int limit = schedule.shape.memory_limit;
  const double of_a_rank =
      static_cast<double>(peak) / static_cast<double>(schedule.shape.virtual_stages * schedule.shape.slices);
  return std::tuple(limit > 0 && peak > limit, schedule.times.bubble_ratio, of_a_rank);
}

// One page of all diagrams, where --html asks for it.
std::string write_gallery(const Options& options, const std::vector<EvaluatedSchedule>& accepted,
                          const std::vector<RefusedSchedule>& refused, const PipelineShape& asked) {
  if (!options.html) return "";
  if (const std::string refusal = gallery_refusal(accepted); !refusal.empty()) {
    complain("simrun: no page: " + refusal + "\n");
    return "";
  }
  probe_outputs({*options.html}, {});
  return write_reported(*options.html, schedule_gallery(accepted, refused, asked));
}

void compare_all(const Options& options, const ScheduleRequest& request) {
  std::vector<EvaluatedSchedule> accepted;
  std::vector<RefusedSchedule> refused;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    const PipelineShape shape = shape_for(entry, request.shape);
    if (std::string why = entry.refusal(shape); !why.empty())
      refused.push_back({entry.name, std::move(why)});
    else
      accepted.push_back(evaluated(entry, shape));
  }
  const PipelineShape shape = shape_for_search(request.shape);
  const SearchOptions search = search_options(request);
  if (std::string why = best_order_refusal(shape, search); !why.empty())
    refused.push_back({"auto", std::move(why)});
  else
    accepted.push_back(searched(shape, search));
  std::ranges::stable_sort(accepted, [](const EvaluatedSchedule& left, const EvaluatedSchedule& right) {
    return rank_in_table(left) < rank_in_table(right);
  });
  const std::string wrote = write_gallery(options, accepted, refused, request.shape);
  if (options.json)
    print(schedules_json(accepted, refused));
  else if (!options.quiet)
    print(schedules_table(accepted, refused) +
          fmt::format("auto: searched with an effort of {} million passes; --schedule auto takes more time\n",
                      search.effort / 1'000'000) +
          wrote);
}

}  // namespace

int run_playground(const Options& options) {
  const ScheduleRequest request = read_schedule_flags(options.schedule_flags);
  if (request.schedule == "all")
    compare_all(options, request);
  else
    show(options, one_schedule(request));
  return 0;
}

}  // namespace simrun
