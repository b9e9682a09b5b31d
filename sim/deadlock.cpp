#include "sim/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace simrun {

namespace {

// "recv activations (segment s2.recv, microbatch 3)"
std::string describe(const Plan& plan, const Program& program, const CompiledEntry& at, Index instruction) {
  const Entry& entry = program.entries[at.entry];
  const Segment& segment = plan.segments[entry.segment];
  const Instruction& i = segment.instructions[instruction];
  std::string microbatch;
  if (i.binding < entry.binding_count)
    microbatch = fmt::format(", microbatch {}", program.bindings[entry.first_binding + i.binding].microbatch);
  return fmt::format("{}{}{} (segment {}{})", to_string(i.opcode), i.label.empty() ? "" : " ", i.label,
                     segment.name, microbatch);
}

const Channel& channel_of(const CompiledPlan& compiled, Index rendezvous) {
  const auto after =
      std::upper_bound(compiled.channels.begin(), compiled.channels.end(), rendezvous,
                       [](Index index, const Channel& channel) { return index < channel.first_rendezvous; });
  return *(after - 1);
}

// The last step issued by a rank on that rendezvous is what the rank waits for: one of its streams has it
// pending.
std::string awaited(const Plan& plan, const Program& program, const CompiledPlan& compiled,
                    const RankState& rank) {
  for (const StreamState& stream : rank.streams) {
    if (stream.pending != rank.parked_on) continue;
    const CompiledEntry entry{.entry = stream.entry};
    return describe(plan, program, entry, stream.instruction);
  }
  return fmt::format("exchange {}", rank.parked_on - channel_of(compiled, rank.parked_on).first_rendezvous);
}

// Ranks of the exchange that have not posted it: no stream of theirs has it pending.
std::string absent(const CompiledPlan& compiled, const Plan& plan, const std::vector<RankState>& ranks,
                   Index rendezvous) {
  const Channel& channel = channel_of(compiled, rendezvous);
  std::string list;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::int32_t pipeline_rank = plan.programs[r].pipeline_rank;
    const auto& members = channel.pipeline_ranks;
    if (std::find(members.begin(), members.end(), pipeline_rank) == members.end()) continue;
    const bool posted = std::any_of(ranks[r].streams.begin(), ranks[r].streams.end(),
                                    [&](const StreamState& stream) { return stream.pending == rendezvous; });
    if (!posted) list += fmt::format("{}{}", list.empty() ? "" : ", ", pipeline_rank);
  }
  return list.empty() ? "a rank that never posts it" : "pipeline rank " + list;
}

}  // namespace

void throw_deadlock(const Plan& plan, const CompiledPlan& compiled, const std::vector<RankState>& ranks) {
  std::string message = "the plan deadlocks:";
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankState& rank = ranks[r];
    if (rank.finished) continue;
    const Program& program = plan.programs[r];
    const CompiledRank& code = compiled.ranks[r];
    std::string at = "the end of its program";
    if (rank.entry < code.entries.size()) {
      const CompiledSegment& segment = code.segments[code.entries[rank.entry].segment];
      at = describe(plan, program, code.entries[rank.entry],
                    code.steps[segment.first_step + rank.step].instruction);
    }
    message += fmt::format("\n  pipeline rank {} at {} waits for {}, which {} has not posted",
                           program.pipeline_rank, at, awaited(plan, program, compiled, rank),
                           absent(compiled, plan, ranks, rank.parked_on));
  }
  throw std::runtime_error(message);
}

void throw_posted_twice(const Plan& plan, const Channel& channel) {
  std::string ranks;
  for (const std::int32_t rank : channel.pipeline_ranks) ranks += fmt::format(" {}", rank);
  throw std::runtime_error(
      fmt::format("plan {}: more than {} ends of one exchange were posted, by pipeline ranks{}",
                  plan.job.name, channel.expected, ranks));
}

}  // namespace simrun
