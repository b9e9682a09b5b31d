#include "sim/exchange_traffic.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "sim/collective_tuner.h"
#include "sim/kernel_cost.h"
#include "sim/server_flows.h"
#include "sim/tuned_flows.h"

namespace simrun {

namespace {

bool is_transfer(const CompiledExchange& exchange) {
  return exchange.instruction->opcode == Opcode::send || exchange.instruction->opcode == Opcode::recv;
}

// Switches that carry whatever their ports do are no place to meet: flows only cross links that can limit
// them.
ExchangeFlows thinned(const Topology& topology, ExchangeFlows flows) {
  for (FlowPhase& phase : flows) {
    for (SharedFlow& flow : phase.flows)
      flow.route.remove_if([&](LinkIndex link) { return !topology.can_limit(link); });
    phase.flows.shrink_to_fit();
  }
  return flows;
}

ExchangeFlows transfer_flows_of(Opcode opcode, const Meeting& meeting, std::span<const std::int64_t> members,
                                const Topology& topology) {
  if (opcode == Opcode::send || opcode == Opcode::recv)
    return transfer_flows(topology, members[0], members[1]);
  if (meeting.servers.one_sided) return one_sided_flows(topology, opcode, members[0], members.subspan(1));
  return server_flows(topology, opcode, meeting.servers, members);
}

// Adds exchanges to the traffic. Those of a group that go the same way have the same flows: the first one's
// are worked out, for all of them.
class TrafficWriter {
 public:
  TrafficWriter(const Topology& topology, const Cluster& cluster, ExchangeTraffic& traffic)
      : topology_(topology), cluster_(cluster), tuned_(topology, cluster), flows_(traffic.flows) {}

  void add(const CompiledExchange& exchange, const Meeting& meeting) {
    flows_.emplace_back(meeting.positions);
    const Opcode opcode = exchange.instruction->opcode;
    for (Index position = 0; position < meeting.positions; ++position) {
      const std::span<const std::int64_t> members = meeting.members[position];
      const double bytes = meeting.bytes[position];
      if (members.empty() || bytes < 0) continue;
      const bool is_collective = opcode != Opcode::send && opcode != Opcode::recv &&
                                 !meeting.servers.one_sided && !has_servers(opcode);
      if (is_collective)
        flows_.back()[position] = {collective(opcode, members, bytes), bytes};
      else
        flows_.back()[position] = {thinned(topology_, transfer_flows_of(opcode, meeting, members, topology_)),
                                   bytes};
    }
  }

 private:
  using Way = std::tuple<Opcode, CollectiveChoice, std::vector<std::int64_t>>;

  std::shared_ptr<const ExchangeFlows> collective(Opcode opcode, std::span<const std::int64_t> members,
                                                  double bytes) {
    if (members.size() <= 1) return nullptr;
    const CollectiveChoice choice = tuned_.fastest(opcode, members, bytes);
    std::shared_ptr<const ExchangeFlows>& known = known_[{opcode, choice, {members.begin(), members.end()}}];
    if (known == nullptr)
      known = std::make_shared<const ExchangeFlows>(
          thinned(topology_, flows_of_way(topology_, cluster_, opcode, members, choice)));
    return known;
  }

  const Topology& topology_;
  const Cluster& cluster_;
  TunedFlows tuned_;
  std::vector<std::vector<NetworkExchange>>& flows_;
  std::map<Way, std::shared_ptr<const ExchangeFlows>> known_;
};

// A message that occupies a link for less is all latency: nobody notices it, and it notices nobody. So the
// all-reduce of one gradient norm does not make flows of all tensor-parallel traffic, nor of itself: its
// rings and trees over all GPUs would tell apart what is alike in all else.
constexpr double shortest_s = 1e-9;
bool is_noticed(const Topology& topology, double bytes, LinkIndex link) {
  return bytes >= shortest_s * topology.bandwidth(link);
}

// Marks links as shared that two users have.
class Users {
 public:
  Users(const Topology& topology, std::vector<bool>& shared)
      : topology_(topology), user_(topology.links(), none), shared_(shared) {}

  void add(const NetworkExchange& exchange, std::uint64_t user) {
    for (const FlowPhase& phase : exchange.flows())
      for (const SharedFlow& flow : phase.flows)
        for (const LinkIndex link : flow.route.links()) {
          if (!is_noticed(topology_, flow.share * exchange.bytes, link)) continue;
          if (user_[link] != none && user_[link] != user) shared_[link] = true;
          user_[link] = user;
        }
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  const Topology& topology_;
  std::vector<std::uint64_t> user_;
  std::vector<bool>& shared_;
};

void mark_shared(const Topology& topology, const CompiledPlan& compiled, const Meetings& meetings,
                 ExchangeTraffic& traffic) {
  Users users(topology, traffic.shared);
  for (std::size_t e = 0; e < compiled.exchanges.size(); ++e) {
    const CompiledExchange& exchange = compiled.exchanges[e];
    if (exchange.instruction->opcode == Opcode::recv) continue;  // its links are the sender's
    const Meeting& meeting = meetings.of_exchange[e];
    for (Index position = 0; position < meeting.positions; ++position) {
      // Transfers of one GPU on one stream come one after the other, whatever their channels; so do the
      // collectives of one group on one stream, which have one rendezvous.
      std::uint64_t user = meetings.rendezvous_of(meeting, position, 0);
      if (is_transfer(exchange) && !meeting.members[position].empty())
        user = meetings.rendezvous + (static_cast<std::uint64_t>(meeting.members[position][0]) << 8) +
               exchange.stream;
      users.add(traffic.flows[e][position], user);
    }
  }
  constexpr std::uint64_t first_other = std::uint64_t{1} << 63;
  for (std::size_t job = 0; job < traffic.other_jobs.size(); ++job)
    users.add(traffic.other_jobs[job].exchange, first_other + job);
}

std::vector<std::int64_t> count_executions(const CompiledPlan& compiled) {
  std::vector<std::int64_t> executions(compiled.exchanges.size(), 0);
  for (const CompiledRank& rank : compiled.ranks) {
    std::vector<std::int64_t> of_segment(rank.segments.size(), 0);
    for (const CompiledEntry& entry : rank.entries) ++of_segment[entry.segment];
    for (std::size_t s = 0; s < rank.segments.size(); ++s)
      for (Index i = 0; i < rank.segments[s].steps; ++i)
        if (const Index e = rank.steps[rank.segments[s].first_step + i].exchange; e != no_index)
          executions[e] += of_segment[s];
  }
  return executions;
}

}  // namespace

ExchangeTraffic exchange_traffic(const CompiledPlan& compiled, const Meetings& meetings,
                                 const Topology& topology, const Cluster& cluster) {
  ExchangeTraffic traffic;
  TrafficWriter writer(topology, cluster, traffic);
  for (std::size_t e = 0; e < compiled.exchanges.size(); ++e)
    writer.add(compiled.exchanges[e], meetings.of_exchange[e]);
  traffic.other_jobs = other_jobs_traffic(topology, cluster);
  for (PeriodicExchange& other : traffic.other_jobs)
    other.exchange = {thinned(topology, other.exchange.flows()), other.exchange.bytes};
  traffic.shared.assign(topology.links(), false);
  mark_shared(topology, compiled, meetings, traffic);
  traffic.executions = count_executions(compiled);
  return traffic;
}

bool meets_other_jobs(const Topology& topology, const ExchangeTraffic& traffic) {
  if (traffic.other_jobs.empty()) return false;
  std::vector<bool> theirs(topology.links(), false);
  for (const PeriodicExchange& other : traffic.other_jobs)
    for (const FlowPhase& phase : other.exchange.flows())
      for (const SharedFlow& flow : phase.flows)
        for (const LinkIndex link : flow.route.links()) theirs[link] = true;
  return std::ranges::any_of(traffic.flows, [&](const std::vector<NetworkExchange>& positions) {
    return std::ranges::any_of(
        positions, [&](const NetworkExchange& exchange) { return is_noticed(topology, exchange, theirs); });
  });
}

bool uses_shared_link(const ExchangeFlows& flows, const std::vector<bool>& shared) {
  for (const FlowPhase& phase : flows)
    for (const SharedFlow& flow : phase.flows)
      for (const LinkIndex link : flow.route.links())
        if (shared[link]) return true;
  return false;
}

bool is_noticed(const Topology& topology, const NetworkExchange& exchange, const std::vector<bool>& links) {
  for (const FlowPhase& phase : exchange.flows())
    for (const SharedFlow& flow : phase.flows)
      for (const LinkIndex link : flow.route.links())
        if (links[link] && is_noticed(topology, flow.share * exchange.bytes, link)) return true;
  return false;
}

bool counts_traffic(const CompiledPlan& compiled, std::size_t exchange) {
  const CompiledExchange& of = compiled.exchanges[exchange];
  if (of.instruction->opcode == Opcode::recv) return false;
  if (is_transfer(of) || of.channel == no_index) return true;
  return compiled.channels[of.channel].pipeline_ranks.front() == of.pipeline_rank;
}

const std::vector<LinkUse>& LinkUses::of(std::span<const NetworkExchange> exchanges) {
  uses_.clear();
  std::size_t phases = 0;
  for (const NetworkExchange& exchange : exchanges) phases = std::max(phases, exchange.flows().size());
  Picoseconds begun = 0;
  for (std::size_t phase = 0; phase < phases; ++phase) add_phase(exchanges, phase, begun);
  return uses_;
}

void LinkUses::add(LinkIndex link, double bytes, Picoseconds begun) {
  if (use_of_[link] == no_index) {
    use_of_[link] = static_cast<Index>(uses_.size());
    uses_.push_back({link, 0, begun, begun});
  }
  uses_[use_of_[link]].bytes += bytes;
  seconds_[link] += bytes / topology_.bandwidth(link);
}

// A phase takes as long as the fullest of its links, or its slowest flow; its flows keep pace.
void LinkUses::add_phase(std::span<const NetworkExchange> exchanges, std::size_t phase, Picoseconds& begun) {
  const std::size_t first = uses_.size();
  double latency_s = 0;
  for (const NetworkExchange& exchange : exchanges)
    if (phase < exchange.flows().size()) latency_s = std::max(latency_s, exchange.flows()[phase].latency_s);
  begun += to_picoseconds(latency_s);
  for (const NetworkExchange& exchange : exchanges)
    if (phase < exchange.flows().size())
      for (const SharedFlow& flow : exchange.flows()[phase].flows)
        for (const LinkIndex link : flow.route.links()) add(link, flow.share * exchange.bytes, begun);
  Picoseconds ended = begun;
  for (const NetworkExchange& exchange : exchanges) {
    if (phase >= exchange.flows().size()) continue;
    const std::vector<SharedFlow>& flows = exchange.flows()[phase].flows;
    double fullest = 0;
    for (const SharedFlow& flow : flows) {
      fullest = std::max(fullest, flow.share * exchange.bytes / most_rate(topology_, flow));
      for (const LinkIndex link : flow.route.links()) fullest = std::max(fullest, seconds_[link]);
    }
    const Picoseconds end = begun + to_picoseconds(fullest);
    for (const SharedFlow& flow : flows)
      for (const LinkIndex link : flow.route.links())
        uses_[use_of_[link]].end = std::max(uses_[use_of_[link]].end, end);
    ended = std::max(ended, end);
  }
  for (std::size_t u = first; u < uses_.size(); ++u) {
    use_of_[uses_[u].link] = no_index;
    seconds_[uses_[u].link] = 0;
  }
  begun = ended;
}

}  // namespace simrun
