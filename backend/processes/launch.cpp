#include "backend/processes/launch.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace simrun {
namespace {

using Variable = std::function<std::optional<std::string>(const char*)>;

struct Names {
  const char *number, *count, *other_count;
};
constexpr std::array<Names, 5> launchers{{
    {"SIMRUN_RANK", "SIMRUN_WORLD", nullptr},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr},
    {"RANK", "WORLD_SIZE", nullptr},
}};

std::optional<int> whole_number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return {};
  return value;
}

Launch read(const Names& names, const std::string& number, const Variable& variable) {
  Launch launch;
  launch.from = names.number;
  const char* count_name = names.count;
  std::optional<std::string> count = variable(names.count);
  if (!count && names.other_count != nullptr) {
    count_name = names.other_count;
    count = variable(names.other_count);
  }
  if (!count) {
    launch.error = fmt::format("{} is set and {} is not: both say how processes were started", names.number,
                               names.count);
    return launch;
  }
  const std::optional<int> process = whole_number(number), processes = whole_number(*count);
  if (!process || !processes || *process >= *processes)
    launch.error = fmt::format("{}={} and {}={}: a process's number is from 0 to below their number",
                               names.number, number, count_name, *count);
  else
    launch = {*process, *processes, names.number, ""};
  return launch;
}

}  // namespace

Launch detect_launch(const Variable& variable) {
  for (const Names& names : launchers) {
    // A batch script has a number, too, but is no process of a step.
    if (names.number == std::string_view("SLURM_PROCID") && !variable(names.count)) continue;
    if (const std::optional<std::string> number = variable(names.number))
      return read(names, *number, variable);
  }
  return {};
}

Launch detect_launch() {
  return detect_launch([](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) return {};
    return value;
  });
}

}  // namespace simrun
