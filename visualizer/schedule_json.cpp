#include "visualizer/schedule_json.h"

#include <fmt/format.h>

#include "visualizer/json.h"

namespace simrun {

namespace {

template <typename Items, typename Text>
std::string list(const Items& items, const Text& text) {
  std::string json = "[";
  for (const auto& item : items) {
    if (json.size() > 1) json += ", ";
    json += text(item);
  }
  return json + "]";
}

std::string whole_number(int value) { return std::to_string(value); }

// ["0F0", "(0F8;7B3)"]: op spellings hold nothing that JSON would escape.
std::string rank_ops_json(const RankOps& ops) {
  std::string json = "[\"";
  for (const char letter : to_string(ops)) {
    if (letter == ' ')
      json += "\", \"";
    else
      json += letter;
  }
  return ops.empty() ? "[]" : json + "\"]";
}

std::string object(const EvaluatedSchedule& schedule, const std::string& indent) {
  const ScheduleTimes& times = schedule.times;
  std::string json = "{";
  const auto add = [&](const char* name, const std::string& value) {
    json += fmt::format("{}\n{}  \"{}\": {}", json.size() > 1 ? "," : "", indent, name, value);
  };
  add("schedule", json_quoted(schedule.name));
  add("ranks", whole_number(schedule.shape.ranks));
  add("microbatches", whole_number(schedule.shape.microbatches));
  add("virtual", whole_number(schedule.shape.virtual_stages));
  add("makespan", units_text(times.makespan));
  add("idle", list(times.idle, units_text));
  add("span_idle", list(times.span_idle, units_text));
  add("bubble_ratio", fmt::format("{}", times.bubble_ratio));
  add("peak_inflight_at_w", list(times.peak_in_flight_at_w, whole_number));
  add("peak_inflight_at_i", list(times.peak_in_flight_at_i, whole_number));
  add("parameter_copies", whole_number(parameter_copies(schedule)));
  if (schedule.search) {
    add("placement", json_quoted(to_string(schedule.placement)));
    add("lower_bound", units_text(schedule.search->lower_bound));
    add("gap", fmt::format("{}", gap_to_bound(schedule)));
    add("start", json_quoted(schedule.search->start));
  }
  std::string ops;
  for (const RankOps& rank : schedule.schedule)
    ops += (ops.empty() ? "\n" : ",\n") + indent + "    " + rank_ops_json(rank);
  add("ops", "[" + ops + "\n" + indent + "  ]");
  return json + "\n" + indent + "}";
}

}  // namespace

std::string schedule_json(const EvaluatedSchedule& schedule) { return object(schedule, "") + "\n"; }

std::string schedules_json(const std::vector<EvaluatedSchedule>& schedules,
                           const std::vector<RefusedSchedule>& refused) {
  std::string accepted;
  for (const EvaluatedSchedule& schedule : schedules)
    accepted += (accepted.empty() ? "\n    " : ",\n    ") + object(schedule, "    ");
  std::string others;
  for (const RefusedSchedule& refusal : refused)
    others += fmt::format("{}\n    {{\"schedule\": {}, \"why\": {}}}", others.empty() ? "" : ",",
                          json_quoted(refusal.name), json_quoted(refusal.why));
  return fmt::format("{{\n  \"schedules\": [{}{}],\n  \"refused\": [{}{}]\n}}\n", accepted,
                     accepted.empty() ? "" : "\n  ", others, others.empty() ? "" : "\n  ");
}

}  // namespace simrun
