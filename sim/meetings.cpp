#include "sim/meetings.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/exchange_groups.h"

namespace simrun {

namespace {

class MeetingFinder {
 public:
  MeetingFinder(const Plan& plan, const CompiledPlan& compiled, Durations& durations)
      : plan_(plan),
        compiled_(compiled),
        durations_(durations),
        channel_first_(compiled.channels.size(), no_index) {}

  Meetings find(Instantiation instantiation) {
    found_.instantiation = instantiation;
    const bool all = instantiation == Instantiation::every_gpu;
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(plan_.stages.size()); ++rank)
      found_.gpus.push_back(all ? static_cast<Index>(device_count(plan_, rank)) : 1);
    for (const CompiledExchange& exchange : compiled_.exchanges) {
      Meeting meeting = all ? meeting_of_all(exchange) : meeting_of_representatives(exchange);
      meeting.per_instance = exchange.channel != no_index;
      meeting.first = meeting.per_instance ? channel_numbers(exchange.channel, meeting.positions)
                                           : group_numbers(exchange, meeting.positions);
      found_.of_exchange.push_back(std::move(meeting));
    }
    return std::move(found_);
  }

 private:
  const Communication& communication(const CompiledExchange& exchange) const {
    return plan_.communications.at(exchange.instruction->communication);
  }

  Index channel_numbers(Index channel, Index positions) {
    Index& first = channel_first_[channel];
    if (first == no_index) {
      first = found_.rendezvous;
      found_.rendezvous += positions * std::max<Index>(compiled_.channels[channel].instances, 1);
    }
    return first;
  }

  // SENDs and RECVs meet two by two: of one exchange by its channel, inside one mesh in the order of issue.
  bool is_transfer(const CompiledExchange& exchange) const {
    if (exchange.channel != no_index) return compiled_.channels[exchange.channel].point_to_point;
    return exchange.instruction->opcode == Opcode::send || exchange.instruction->opcode == Opcode::recv;
  }

  // All exchanges of one group on one stream meet at the same places; so do all transfers as many steps along
  // the same axes, whose ends are on two streams.
  Index group_numbers(const CompiledExchange& exchange, Index positions) {
    const Group& group = communication(exchange).group;
    const Peer& peer = communication(exchange).peer;
    const bool transfer = is_transfer(exchange);
    const std::int32_t steps = exchange.instruction->opcode == Opcode::recv ? -peer.offset : peer.offset;
    const auto [found, fresh] =
        group_first_.try_emplace({exchange.pipeline_rank, transfer ? 0 : exchange.stream, group.mesh,
                                  transfer ? peer.axes : group.axes, steps},
                                 found_.rendezvous);
    if (fresh) found_.rendezvous += positions;
    return found->second;
  }

  Meeting meeting_of_representatives(const CompiledExchange& exchange) const {
    Meeting meeting;
    meeting.position = {0};
    const std::size_t stages = communication(exchange).group.pipeline_ranks.size();
    const bool transfer = is_transfer(exchange);
    const bool alone = exchange.channel == no_index;
    meeting.expected = {transfer ? 2 : alone ? 1 : static_cast<Index>(std::max<std::size_t>(stages, 1))};
    return meeting;
  }

  Meeting meeting_of_all(const CompiledExchange& exchange) {
    const ServerGroup& servers = communication(exchange).servers;
    Meeting meeting = is_transfer(exchange) ? pairs(exchange)
                      : servers.one_sided   ? one_sided(exchange)
                                            : groups(exchange);
    meeting.servers = servers;
    // Of the members on this pipeline rank: where others are of another one, they have their own exchange.
    meeting.bytes.assign(meeting.positions, exchange.bytes_of_gpu.empty() ? exchange.bytes : -1);
    for (Index i = 0; i < exchange.bytes_of_gpu.size(); ++i)
      if (meeting.position[i] != no_index) {
        double& bytes = meeting.bytes[meeting.position[i]];
        bytes = std::max(bytes, exchange.bytes_of_gpu[i]);
      }
    meeting.durations.assign(meeting.positions, 0);
    for (Index i = 0; i < meeting.position.size(); ++i)
      if (const Index position = meeting.position[i]; position != no_index)
        meeting.durations[position] = durations_.instance_time(exchange.pipeline_rank, *exchange.instruction,
                                                               {i, meeting.bytes[position]});
    return meeting;
  }

  Meeting groups(const CompiledExchange& exchange) const {
    const Group& group = communication(exchange).group;
    Meeting meeting;
    meeting.members = group_instances(plan_, exchange.pipeline_rank, group);
    meeting.position = instance_of_devices(plan_, exchange.pipeline_rank, group);
    meeting.positions = static_cast<Index>(meeting.members.size());
    for (const std::vector<std::int64_t>& members : meeting.members)
      meeting.expected.push_back(static_cast<Index>(members.size()));
    return meeting;
  }

  // A position is the worker's local index.
  Meeting one_sided(const CompiledExchange& exchange) const {
    Meeting meeting;
    meeting.positions = found_.gpus[static_cast<std::size_t>(exchange.pipeline_rank)];
    meeting.expected.assign(meeting.positions, 1);
    for (Index i = 0; i < meeting.positions; ++i) meeting.position.push_back(i);
    meeting.members = one_sided_members(plan_, exchange.pipeline_rank, communication(exchange));
    return meeting;
  }

  // A position is the sender's local index.
  Meeting pairs(const CompiledExchange& exchange) {
    const Communication& peers = communication(exchange);
    const bool sends = exchange.instruction->opcode == Opcode::send;
    const std::int32_t own = exchange.pipeline_rank;
    const std::int32_t other = peers.peer.pipeline_rank >= 0 ? peers.peer.pipeline_rank : own;
    Meeting meeting;
    meeting.positions = found_.gpus[static_cast<std::size_t>(sends ? own : other)];
    meeting.expected.assign(meeting.positions, 2);
    meeting.members.resize(meeting.positions);
    for (Index i = 0; i < found_.gpus[static_cast<std::size_t>(own)]; ++i) {
      const std::int64_t peer = peer_of(plan_, own, peers, i), device = device_at(plan_, own, i);
      const Index position = peer < 0 ? no_index : sends ? i : local_index(plan_, other, peer);
      meeting.position.push_back(position);
      if (position == no_index) continue;
      meeting.members[position] = {sends ? device : peer, sends ? peer : device};
    }
    return meeting;
  }

  const Plan& plan_;
  const CompiledPlan& compiled_;
  Durations& durations_;
  Meetings found_;
  std::vector<Index> channel_first_;
  std::map<std::tuple<std::int32_t, std::uint8_t, std::uint8_t, std::vector<std::uint8_t>, std::int32_t>,
           Index>
      group_first_;
};

}  // namespace

Meetings find_meetings(const Plan& plan, const CompiledPlan& compiled, Instantiation instantiation,
                       Durations& durations) {
  return MeetingFinder(plan, compiled, durations).find(instantiation);
}

}  // namespace simrun
