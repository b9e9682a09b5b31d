#pragma once

#include <string>

#include "schedules/evaluate_schedule.h"

namespace simrun {

// A pipeline schedule alone, drawn and listed without a model: what `simrun --schedule` shows.
struct EvaluatedSchedule {
  std::string name;  // "zb_v", or the path of a CSV
  Placement placement = Placement::loop;
  PipelineShape shape;  // its times in ticks
  Schedule schedule;
  ScheduleTimes times;  // in ticks
};

// A schedule that does not accept the sizes, and its rule.
struct RefusedSchedule {
  std::string name;
  std::string why;
};

// Costs are given with up to six decimals; ticks are whole.
constexpr std::int64_t ticks_per_unit = 1'000'000;

// "18.5" for 18'500'000 ticks: exact, without trailing zeros.
std::string units_text(std::int64_t ticks);

// How many ranks hold each stage's weights.
int parameter_copies(const EvaluatedSchedule& schedule);

std::size_t op_count(const Schedule& schedule);

}  // namespace simrun
