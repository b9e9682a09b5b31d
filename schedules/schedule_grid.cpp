#include "schedules/schedule_grid.h"

namespace simrun {

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const RankOps& ops : schedule) text += to_string(ops) + "\n";
  return text;
}

std::string to_csv(const Schedule& schedule) {
  std::string csv;
  for (const char letter : to_text(schedule)) {
    if (letter == ' ')
      csv += ',';
    else
      csv += letter;
    if (letter == ')') csv += "OVERLAP_F_B";
  }
  return csv;
}

}  // namespace simrun
