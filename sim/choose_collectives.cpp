#include "sim/choose_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "sim/collective_cost.h"
#include "sim/collective_tuner.h"
#include "sim/compiled_program.h"
#include "sim/exchange_groups.h"

namespace simrun {

namespace {

bool is_collective(Opcode opcode) { return opcode >= Opcode::all_reduce && opcode <= Opcode::broadcast; }

std::string axes_of(const Plan& plan, std::int32_t pipeline_rank, const Group& group) {
  const Mesh& mesh = plan.stages.at(static_cast<std::size_t>(pipeline_rank)).meshes.at(group.mesh);
  std::vector<std::string> names;
  for (const std::uint8_t axis : group.axes) names.push_back(mesh.axes.at(axis).name);
  if (!group.pipeline_ranks.empty()) names.emplace_back("pp");
  return fmt::format("{}", fmt::join(names, "-"));
}

class Chooser {
 public:
  explicit Chooser(const Plan& plan) : plan_(plan), topology_(plan.cluster) {}

  std::vector<ChosenCollective> choose() {
    for (const Program& program : plan_.programs) add(program);
    return std::move(chosen_);
  }

 private:
  using Devices = std::vector<std::int64_t>;

  void add(const Program& program) {
    std::map<Index, std::int64_t> executions;  // by segment
    for (const Entry& entry : program.entries)
      if (runs_in(entry.steps, WhichStep::steady)) ++executions[entry.segment];
    std::map<std::size_t, std::int64_t> times;  // by place in chosen_
    for (const auto& [segment, count] : executions)
      for (const Instruction& instruction : plan_.segments[segment].instructions)
        if (is_collective(instruction.opcode))
          if (const std::optional<std::size_t> place = place_of(program.pipeline_rank, instruction))
            times[*place] += count;
    for (const auto& [place, count] : times) chosen_[place].times = std::max(chosen_[place].times, count);
  }

  const Devices& first_instance(std::int32_t pipeline_rank, const Group& group) {
    const auto [found, is_new] =
        instances_.try_emplace({pipeline_rank, group.mesh, group.axes, group.pipeline_ranks});
    if (is_new) found->second = group_instances(plan_, pipeline_rank, group).front();
    return found->second;
  }

  std::optional<std::size_t> place_of(std::int32_t pipeline_rank, const Instruction& instruction) {
    const Group& group = plan_.communications.at(instruction.communication).group;
    const Devices& devices = first_instance(pipeline_rank, group);
    const double bytes = communicated_bytes(plan_, instruction);
    if (devices.size() < 2 || bytes <= 0) return std::nullopt;
    const auto [known, is_new] = ways_.try_emplace({&devices, instruction.opcode, bytes});
    if (is_new)
      known->second = tuned_collective(topology_, plan_.cluster, instruction.opcode, devices, bytes).choice;
    ChosenCollective chosen{.collective = to_string(instruction.opcode),
                            .group = axes_of(plan_, pipeline_rank, group),
                            .ranks = static_cast<std::int64_t>(devices.size()),
                            .algorithm = to_string(known->second.algorithm),
                            .protocol = to_string(known->second.protocol),
                            .times = 0,
                            .least_bytes = std::llround(bytes),
                            .most_bytes = std::llround(bytes)};
    const auto alike = std::ranges::find_if(chosen_, [&](const ChosenCollective& other) {
      return std::tie(other.collective, other.group, other.ranks, other.algorithm, other.protocol) ==
             std::tie(chosen.collective, chosen.group, chosen.ranks, chosen.algorithm, chosen.protocol);
    });
    const auto place = static_cast<std::size_t>(alike - chosen_.begin());
    if (alike == chosen_.end()) {
      chosen_.push_back(std::move(chosen));
      return place;
    }
    alike->least_bytes = std::min(alike->least_bytes, chosen.least_bytes);
    alike->most_bytes = std::max(alike->most_bytes, chosen.most_bytes);
    return place;
  }

  const Plan& plan_;
  const Topology topology_;
  std::vector<ChosenCollective> chosen_;
  std::map<std::tuple<std::int32_t, std::uint8_t, std::vector<std::uint8_t>, std::vector<std::int32_t>>,
           Devices>
      instances_;
  std::map<std::tuple<const Devices*, Opcode, double>, CollectiveChoice> ways_;
};

}  // namespace

std::vector<ChosenCollective> choose_collectives(const Plan& plan) { return Chooser(plan).choose(); }

}  // namespace simrun
