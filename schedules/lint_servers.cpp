#include <fmt/format.h>

#include <algorithm>

#include "schedules/lint_checks.h"

// A PUSH or PULL names servers that its group has, and one-sided ones have nobody to wait for.
namespace simrun {
namespace {

// Members of a group over all its pipeline ranks that have the axes; -1 where one has not.
std::int64_t members_of(const Plan& plan, std::size_t rank, const Group& group) {
  std::vector<std::int32_t> ranks = group.pipeline_ranks;
  if (ranks.empty()) ranks.push_back(static_cast<std::int32_t>(rank));
  std::int64_t members = 0;
  for (const std::int32_t of : ranks) {
    const StageDevices& stage = plan.stages[static_cast<std::size_t>(of)];
    if (group.mesh >= stage.meshes.size()) return -1;
    std::int64_t own = 1;
    for (const std::uint8_t axis : group.axes) {
      if (axis >= stage.meshes[group.mesh].axes.size()) return -1;
      own *= stage.meshes[group.mesh].axes[axis].size;
    }
    members += own;
  }
  return members;
}

std::string server_error(const Plan& plan, std::size_t rank, const Instruction& what) {
  const Communication& communication = plan.communications[what.communication];
  const std::vector<std::int64_t>& servers = communication.servers.members;
  if (!has_servers(what.opcode)) return servers.empty() ? "" : "is no PUSH or PULL, but names servers";
  const std::int64_t members = members_of(plan, rank, communication.group);
  if (members < 0) return "names a mesh or an axis that a pipeline rank of its group does not have";
  if (servers.empty()) return "names no server";
  if (servers.front() < 0 || servers.back() >= members ||
      std::adjacent_find(servers.begin(), servers.end(), std::greater_equal<>()) != servers.end())
    return fmt::format("names servers that are not ascending members of its group of {}", members);
  if (communication.servers.one_sided && communication.channel != no_index)
    return "is one-sided, but has a channel on which another end would wait";
  return "";
}

}  // namespace

void check_servers(const Plan& plan, Findings& findings) {
  for (std::size_t rank = 0; rank < plan.programs.size(); ++rank)
    for (const Index index : segments_of(plan.programs[rank])) {
      const Segment& segment = plan.segments[index];
      for (std::size_t i = 0; i < segment.instructions.size() && !findings.full(); ++i) {
        if (!is_communication(segment.instructions[i].opcode)) continue;
        const std::string error = server_error(plan, rank, segment.instructions[i]);
        if (!error.empty()) findings.add(place(segment, i) + " " + error);
      }
    }
}

}  // namespace simrun
