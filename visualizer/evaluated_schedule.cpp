#include "visualizer/evaluated_schedule.h"

#include <fmt/format.h>

namespace simrun {

std::string units_text(std::int64_t ticks) {
  std::string text = fmt::format("{}.{:06}", ticks / ticks_per_unit, ticks % ticks_per_unit);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

double gap_to_bound(const EvaluatedSchedule& schedule) {
  const auto bound = static_cast<double>(schedule.search->lower_bound);
  return bound > 0 ? (static_cast<double>(schedule.times.makespan) - bound) / bound : 0;
}

const char* to_string(Placement placement) {
  switch (placement) {
    case Placement::loop: return "loop";
    case Placement::wave: return "wave";
    case Placement::bidirectional: return "bidirectional";
  }
  return "";
}

int parameter_copies(const EvaluatedSchedule& schedule) {
  return schedule.placement == Placement::bidirectional ? 2 : 1;
}

std::size_t op_count(const Schedule& schedule) {
  std::size_t count = 0;
  for (const RankOps& ops : schedule) count += ops.size();
  return count;
}

}  // namespace simrun
