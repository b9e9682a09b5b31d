#include "sim/deadlock.h"

#include <fmt/format.h>

#include <set>
#include <stdexcept>
#include <string>

#include "sim/exchange_groups.h"

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

const IssuedOperation& issued_operation(const DeviceState& device, OperationNumber number) {
  const StreamState& stream = device.streams[number.stream];
  return stream.queue[stream.head + (number.ordinal - stream.ended - 1)];
}

std::string describe(const Standstill& at, const DeviceState& device, Index entry, Index step) {
  const CompiledRank& code = *device.code;
  // Of whatever class the GPU is, its pieces are those of the first.
  const std::vector<StepPiece>& pieces = at.compiled.ranks[device.program].pieces;
  const Index instruction = pieces[code.steps[step].first_piece].instruction;
  return describe(at.plan, at.plan.programs[device.program], code.entries[entry], instruction);
}

// The stream whose head, waiting for a partner, keeps the awaited operation from starting.
std::uint8_t root_stream(const DeviceState& device, OperationNumber awaited) {
  std::uint8_t stream = awaited.stream;
  for (std::size_t hops = 0; hops < device.streams.size(); ++hops) {
    const StreamState& state = device.streams[stream];
    if (state.empty() || state.posted || state.front().awaits.empty()) break;
    stream = state.front().awaits.front().stream;
  }
  return stream;
}

// Those that a simulated GPU stands for.
void add_devices(const Standstill& at, std::int32_t pipeline_rank, Index simulated,
                 std::set<std::int64_t>& gpus) {
  if (at.meetings.classes.empty()) gpus.insert(device_at(at.plan, pipeline_rank, simulated));
  if (at.meetings.classes.empty()) return;
  const std::vector<Index>& class_of = at.meetings.class_of_gpu[static_cast<std::size_t>(pipeline_rank)];
  for (std::size_t local = 0; local < class_of.size(); ++local)
    if (class_of[local] == simulated)
      gpus.insert(device_at(at.plan, pipeline_rank, static_cast<std::int64_t>(local)));
}

// Who has not come to the meeting at which the head of this stream waits: pipeline ranks of a channel, else
// GPUs.
std::string absent(const Standstill& at, const DeviceState& device, std::uint8_t number) {
  const StreamState& stream = device.streams[number];
  if (stream.empty() || !stream.posted) return "a rank that never posts it";
  const CompiledRank& code = *device.code;
  const CompiledStep& step = code.steps[stream.front().step];
  const Meeting& meeting = at.meetings.of_exchange[step.exchange];
  const Index position = meeting.position[device.local_gpu];
  const Index instance = code.instance(code.entries[stream.front().entry], step.binding);
  const auto streams = static_cast<Index>(device.streams.size());
  std::set<std::int64_t> ranks, gpus;
  const Index rendezvous = at.meetings.rendezvous_of(meeting, position, instance);
  for (Index next = at.rendezvous[rendezvous].waiting; next != no_index;) {
    const DeviceState& present = at.devices[next / streams];
    const std::int32_t rank = at.plan.programs[present.program].pipeline_rank;
    ranks.insert(rank);
    add_devices(at, rank, present.local_gpu, gpus);
    next = present.streams[next % streams].next_at_meeting;
  }
  std::string list;
  const Index channel = at.compiled.exchanges[step.exchange].channel;
  if (channel != no_index)
    for (const std::int32_t rank : at.compiled.channels[channel].pipeline_ranks)
      if (!ranks.contains(rank)) list += fmt::format("{}{}", list.empty() ? "pipeline rank " : ", ", rank);
  if (!list.empty() || meeting.members.empty()) return list.empty() ? "a rank that never posts it" : list;
  for (const std::int64_t member : meeting.members[position])
    if (!gpus.contains(member)) list += fmt::format("{}{}", list.empty() ? "GPU " : ", ", member);
  return list.empty() ? "a rank that never posts it" : list;
}

}  // namespace

void throw_deadlock(const Standstill& at) {
  std::string message = "the plan deadlocks:";
  std::set<Index> told;
  for (const DeviceState& device : at.devices) {
    if (device.finished || !told.insert(device.program).second) continue;
    const CompiledRank& code = *device.code;
    const bool at_end = device.entry >= code.entries.size();
    const Index first_step = at_end ? 0 : code.segments[code.entries[device.entry].segment].first_step;
    const IssuedOperation& awaited = issued_operation(device, device.parked_on);
    message += fmt::format(
        "\n  pipeline rank {} at {} waits for {}, which {} has not posted",
        at.plan.programs[device.program].pipeline_rank,
        at_end ? "the end of its program" : describe(at, device, device.entry, first_step + device.step),
        describe(at, device, awaited.entry, awaited.step),
        absent(at, device, root_stream(device, device.parked_on)));
  }
  throw std::runtime_error(message);
}

void throw_posted_twice(const Plan& plan, const Channel& channel) {
  std::string ranks;
  for (const std::int32_t rank : channel.pipeline_ranks) ranks += fmt::format(" {}", rank);
  throw std::runtime_error(
      fmt::format("plan {}: more than {} ends of one exchange were posted, by pipeline ranks{}",
                  plan.job.name, channel.point_to_point ? 2 : channel.pipeline_ranks.size(), ranks));
}

}  // namespace simrun
