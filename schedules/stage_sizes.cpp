#include "schedules/stage_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace simrun {

std::int64_t ranks_along(const Mesh& mesh, std::string_view axis) {
  std::int64_t ranks = 1;
  for (const Axis& of : mesh.axes)
    if (of.name.compare(0, axis.size(), axis) == 0) ranks *= of.size;
  return ranks;
}

std::string ranks_along_text(const Plan& plan, std::string_view axis) {
  const std::int64_t of_job = axis == "tp"   ? plan.job.tensor_parallel
                              : axis == "cp" ? plan.job.context_parallel
                                             : plan.job.data_parallel;
  std::vector<std::int64_t> ranks;
  for (const StageDevices& stage : plan.stages)
    ranks.push_back(stage.meshes.empty() ? of_job : ranks_along(stage.meshes.front(), axis));
  if (plan.job.parameter_servers && plan.job.parameter_servers->dedicated) ranks.pop_back();
  if (std::ranges::adjacent_find(ranks, std::not_equal_to<>()) == ranks.end())
    return fmt::format("{}", of_job);
  std::string text;
  for (std::size_t s = 0; s < ranks.size();) {
    std::size_t next = s;
    while (next < ranks.size() && ranks[next] == ranks[s]) ++next;
    text += fmt::format("{}{}", s == 0 ? "" : ",", ranks[s]);
    if (next > s + 1) text += fmt::format("(x{})", next - s);
    s = next;
  }
  return text;
}

}  // namespace simrun
