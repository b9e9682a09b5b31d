#include "sim/simgrid_run.h"

#include <algorithm>
#include <cmath>

#include "sim/contention.h"
#include "sim/exchange_traffic.h"
#include "sim/kernel_slowdowns.h"
#include "sim/link_meter.h"
#include "sim/network.h"

namespace simrun {

namespace {

// Position of the exchange that the recorded GPU of its pipeline rank is in, if that GPU's flights stand
// for it.
const NetworkExchange* recorded_exchange(const CompiledPlan& compiled, const Meetings& meetings,
                                         const ExchangeTraffic& traffic, std::size_t exchange) {
  const Index position = meetings.of_exchange[exchange].position[0];
  if (position == no_index || !counts_traffic(compiled, exchange)) return nullptr;
  return &traffic.flows[exchange][position];
}

bool spans_ranks(const CompiledPlan& compiled, std::size_t exchange) {
  const Index channel = compiled.exchanges[exchange].channel;
  return channel != no_index && !compiled.channels[channel].point_to_point;
}

// Links at the recorded GPUs, which are the first of their groups: shared ones first. A ring leaves its
// first member by its first edge and returns by its last.
std::vector<bool> recorded_links(const CompiledPlan& compiled, const Meetings& meetings,
                                 const ExchangeTraffic& traffic) {
  std::vector<bool> recorded(traffic.shared.size(), false);
  std::size_t count = 0;
  const auto record = [&](LinkIndex link) {
    if (recorded[link] || count == recorded_link_limit) return;
    recorded[link] = true;
    ++count;
  };
  for (const bool shared : {true, false})
    for (std::size_t e = 0; e < compiled.exchanges.size(); ++e) {
      const NetworkExchange* const exchange = recorded_exchange(compiled, meetings, traffic, e);
      if (exchange == nullptr || spans_ranks(compiled, e)) continue;
      for (const FlowPhase& phase : exchange->flows)
        for (std::size_t f = 0; f < phase.flows.size(); ++f)
          for (const LinkIndex link : phase.flows[f].route.links())
            if (traffic.shared[link] == shared && (f == 0 || f + 1 == phase.flows.size())) record(link);
    }
  return recorded;
}

// Exchanges without a shared link take their closed-form time; what they moved is metered at once.
std::vector<std::vector<NetworkExchange>> carried(const Topology& topology, const CompiledPlan& compiled,
                                                  const ExchangeTraffic& traffic, LinkMeter& meter) {
  std::vector<std::vector<NetworkExchange>> exchanges(traffic.flows.size());
  LinkUses uses(topology);
  for (std::size_t e = 0; e < traffic.flows.size(); ++e) {
    exchanges[e].resize(traffic.flows[e].size());
    for (std::size_t position = 0; position < traffic.flows[e].size(); ++position) {
      const NetworkExchange& exchange = traffic.flows[e][position];
      if (uses_shared_link(exchange.flows, traffic.shared)) {
        exchanges[e][position] = exchange;
        continue;
      }
      if (!counts_traffic(compiled, e)) continue;
      const std::int64_t times = traffic.executions[e];
      for (const LinkUse& use : uses.of({&exchange, 1}))
        meter.add_alone(use.link, use.bytes * static_cast<double>(times), (use.end - use.start) * times);
    }
  }
  return exchanges;
}

// What the recorded GPUs' flights outside the network put on recorded links.
struct Setting {
  const Topology& topology;
  const CompiledPlan& compiled;
  const Meetings& meetings;
  const ExchangeTraffic& traffic;
};
void meter_flights(const Setting& of, const std::vector<Flight>& flights, LinkMeter& meter) {
  LinkUses lone(of.topology);
  std::vector<std::vector<LinkUse>> of_exchange(of.compiled.exchanges.size());
  for (const Flight& flight : flights) {
    std::vector<LinkUse>& uses = of_exchange[flight.exchange];
    if (uses.empty())
      uses = lone.of({recorded_exchange(of.compiled, of.meetings, of.traffic, flight.exchange), 1});
    for (const LinkUse& use : uses)
      meter.record(use.link, use.bytes, flight.start + use.start, flight.start + use.end);
  }
}

std::vector<LinkTimeline> link_timelines(const Topology& topology, const LinkMeter& meter, Picoseconds step,
                                         Detail detail) {
  std::vector<LinkTimeline> links;
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    const LinkMeter::Link& used = meter.at(link);
    if (used.bytes <= 0) continue;
    LinkTimeline& timeline = links.emplace_back();
    timeline.name = topology.name(link);
    timeline.bandwidth = topology.bandwidth(link);
    timeline.bytes = std::llround(used.bytes);
    timeline.busy = used.busy;
    timeline.contended = used.contended;
    if (detail != Detail::totals) timeline.utilisation = meter.utilisation(link, timeline.bandwidth, step);
  }
  order_links(links);
  return links;
}

}  // namespace

SimgridRun run_with_simgrid(const Plan& plan, const CompiledPlan& compiled, Durations& durations,
                            Detail detail) {
  const Topology& topology = durations.topology();
  const Meetings meetings = find_meetings(plan, compiled, Instantiation::every_gpu, durations);
  const ExchangeTraffic traffic = exchange_traffic(compiled, meetings, topology, plan.cluster);
  LinkMeter meter(topology.links(), recorded_links(compiled, meetings, traffic));
  const std::vector<std::vector<NetworkExchange>> exchanges = carried(topology, compiled, traffic, meter);
  Network network(topology, exchanges, meter);
  std::vector<bool> watched(compiled.exchanges.size(), false);
  for (std::size_t e = 0; e < watched.size() && detail != Detail::totals; ++e)
    if (const NetworkExchange* exchange = recorded_exchange(compiled, meetings, traffic, e))
      watched[e] = !uses_shared_link(exchange->flows, traffic.shared);
  SimgridRun result;
  const KernelSlowdowns slowdowns(plan.cluster);
  result.run = run_streams(
      {plan, compiled, meetings, detail, watched, &network, slowdowns.empty() ? nullptr : &slowdowns});
  meter_flights({topology, compiled, meetings, traffic}, result.run.flights, meter);
  result.links = link_timelines(topology, meter, result.run.step, detail);
  result.flows = network.flows();
  result.shared_flows = network.shared_flows();
  return result;
}

}  // namespace simrun
