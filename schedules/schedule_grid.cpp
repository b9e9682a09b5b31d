#include "schedules/schedule_grid.h"

#include <algorithm>

namespace simrun {

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const RankOps& ops : schedule) text += to_string(ops) + "\n";
  return text;
}

std::string to_csv(const Schedule& schedule) {
  std::string text = to_text(schedule);
  std::replace(text.begin(), text.end(), ' ', ',');
  return text;
}

}  // namespace simrun
