#include <cstdint>
#include <string>

#include "configs/diagnostics.h"
#include "schedules/evaluate_schedule.h"
#include "schedules/schedule_grid.h"

// read_schedule_csv() may refuse any text with a ConfigError. What it accepts runs to its end, and comes back
// from its own CSV.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const simrun::ScheduleFile file =
        simrun::read_schedule_csv(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    simrun::evaluate(file.schedule, file.shape);
    const simrun::ScheduleFile again = simrun::read_schedule_csv(to_csv(file.schedule), "fuzz");
    if (again.schedule != file.schedule || again.placement != file.placement) __builtin_trap();
  } catch (const simrun::ConfigError&) {
  }
  return 0;
}
