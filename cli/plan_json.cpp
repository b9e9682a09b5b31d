#include "cli/plan_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "visualizer/json.h"

namespace simrun {

std::string found_json(const SearchCounts& counts, const std::vector<FoundJob>& best) {
  std::vector<std::string> jobs;
  jobs.reserve(best.size());
  for (const FoundJob& job : best)
    jobs.push_back(fmt::format(
        "\n  {{\"candidate\": {}, \"config\": {}, \"step_time_s\": {}, \"peak_memory_bytes\": {}, "
        "\"memory_limit_bytes\": {}{}}}",
        json_quoted(job.simulated.name), json_quoted(job.config), job.simulated.step_s,
        job.simulated.peak_bytes, job.simulated.limit_bytes,
        job.estimated_s ? fmt::format(", \"estimated_step_time_s\": {}", *job.estimated_s) : ""));
  return fmt::format(
      "{{\"schema_version\": 1,\n \"candidates\": {}, \"feasible\": {}, \"evaluated\": {}, \"seconds\": "
      "{:.3f}, "
      "\"stopped\": {},\n \"best\": [{}]}}\n",
      counts.candidates, counts.feasible, counts.evaluated, counts.seconds, counts.was_stopped,
      fmt::join(jobs, ","));
}

}  // namespace simrun
