#include "sim/simgrid_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>  // __GLIBC__
#include <map>
#include <utility>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "sim/contention.h"
#include "sim/exchange_traffic.h"
#include "sim/kernel_slowdowns.h"
#include "sim/link_meter.h"
#include "sim/network.h"
#include "sim/symmetry.h"

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
      for (const FlowPhase& phase : exchange->flows())
        for (std::size_t f = 0; f < phase.flows.size(); ++f)
          for (const LinkIndex link : phase.flows[f].route.links())
            if (traffic.shared[link] == shared && (f == 0 || f + 1 == phase.flows.size())) record(link);
    }
  return recorded;
}

// Lets the system have what was freed, where it is much: glibc would keep it, a third of all memory (jemalloc
// gives it back by itself, later). It is
// counted here: asking malloc goes through all free memory, which a forked worker pays for page by page.
class FreedFlows {
 public:
  void add(const NetworkExchange& exchange) {
    if (!exchange.is_last_user()) return;
    for (const FlowPhase& phase : exchange.flows()) bytes_ += phase.flows.size() * sizeof(SharedFlow);
  }
  void give_back() {
    constexpr std::size_t much = std::size_t{64} << 20;
    if (bytes_ < much) return;
    bytes_ = 0;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
  }

 private:
  std::size_t bytes_ = 0;
};

// What exchanges put on links that are not carried.
class Uncarried {
 public:
  Uncarried(const Topology& topology, const std::vector<bool>& shared, LinkMeter& meter)
      : shared_(shared), meter_(meter), uses_(topology) {}

  // So many times. What shares no link is metered at once.
  void add(const NetworkExchange& exchange, std::int64_t times) {
    const bool is_alone = !uses_shared_link(exchange.flows(), shared_);
    for (const LinkUse& use : uses_.of({&exchange, 1})) {
      const double bytes = use.bytes * static_cast<double>(times);
      const Picoseconds busy = (use.end - use.start) * times;
      if (is_alone)
        meter_.add_alone(use.link, bytes, busy);
      else
        unnoticed_.push_back({use.link, bytes, 0, busy});
    }
  }

  // What nobody notices, once links are folded: trees over all GPUs would tell apart links that are alike in
  // all else. Links of a class share it evenly.
  void meter_unnoticed(std::optional<Folding>& folding) {
    std::map<LinkIndex, LinkUse> of_class;
    for (const LinkUse& use : unnoticed_) {
      LinkUse& sum = of_class[folding ? folding->leader[use.link] : use.link];
      sum.bytes += use.bytes;
      sum.end += use.end;
    }
    for (const auto& [link, sum] : of_class) {
      std::int64_t links = 1;
      if (folding)
        links = folding->alike[link] = std::max<std::int64_t>(folding->alike[link], 1);  // 0: else unused
      meter_.add_alone(link, sum.bytes / static_cast<double>(links), sum.end / links);
    }
  }

 private:
  const std::vector<bool>& shared_;
  LinkMeter& meter_;
  LinkUses uses_;
  std::vector<LinkUse> unnoticed_;
};

// Exchanges without a shared link take their closed-form time, and so do those that nobody notices on theirs.
// Of the traffic only what recorded_exchange() returns is left: it has tens of bytes for every flow.
CarriedTraffic take_carried(const Topology& topology, const CompiledPlan& compiled, const Meetings& meetings,
                            ExchangeTraffic& traffic, Uncarried& uncarried) {
  CarriedTraffic carried;
  std::vector<const NetworkExchange*> shared;
  for (const std::vector<NetworkExchange>& positions : traffic.flows)
    for (const NetworkExchange& exchange : positions)
      if (is_noticed(topology, exchange, traffic.shared)) shared.push_back(&exchange);
  for (const PeriodicExchange& other : traffic.other_jobs) shared.push_back(&other.exchange);
  reserve(carried, shared);
  TrafficAppender appender(topology, carried);
  FreedFlows freed;
  for (std::size_t e = 0; e < traffic.flows.size(); ++e) {
    std::vector<CarriedExchange>& positions = carried.exchanges.emplace_back(traffic.flows[e].size());
    const NetworkExchange* const recorded = recorded_exchange(compiled, meetings, traffic, e);
    for (std::size_t position = 0; position < positions.size(); ++position) {
      NetworkExchange& exchange = traffic.flows[e][position];
      if (is_noticed(topology, exchange, traffic.shared)) {
        positions[position] = appender.append(exchange);
      } else if (counts_traffic(compiled, e)) {
        uncarried.add(exchange, traffic.executions[e]);
      }
      if (&exchange == recorded) continue;
      freed.add(exchange);
      exchange = {};
    }
    freed.give_back();
  }
  for (const PeriodicExchange& other : traffic.other_jobs)
    carried.periodic.push_back({appender.append(other.exchange), other.period, other.phase});
  return carried;
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

// One for every link, or for every one that stands for others.
std::vector<LinkTimeline> link_timelines(const Topology& topology, const LinkMeter& meter,
                                         const std::optional<Folding>& folding, const EngineRun& run,
                                         Detail detail) {
  std::vector<LinkTimeline> links;
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    const LinkMeter::Link& used = meter.at(link);
    if (used.bytes <= 0 || (folding && folding->alike[link] == 0)) continue;
    LinkTimeline& timeline = links.emplace_back();
    timeline.name = topology.name(link);
    timeline.bandwidth = topology.bandwidth(link);
    timeline.bytes = std::llround(used.bytes);
    timeline.busy = used.busy;
    timeline.contended = used.contended;
    if (folding) timeline.multiplicity = folding->alike[link];
    if (detail != Detail::totals)
      timeline.utilisation = meter.utilisation(link, timeline.bandwidth, run.step);
  }
  order_links(links);
  return links;
}

}  // namespace

SimgridRun run_with_simgrid(const Plan& plan, const CompiledPlan& compiled, Durations& durations,
                            Detail detail, bool folds) {
  const Topology& topology = durations.topology();
  const Meetings meetings = find_meetings(plan, compiled, Instantiation::every_gpu, durations);
  ExchangeTraffic traffic = exchange_traffic(compiled, meetings, topology, plan.cluster);
  std::vector<bool> recorded = recorded_links(compiled, meetings, traffic);
  LinkMeter meter(topology.links(), {});
  Uncarried uncarried(topology, traffic.shared, meter);
  CarriedTraffic carried = take_carried(topology, compiled, meetings, traffic, uncarried);
  std::optional<Folding> folding;
  const KernelSlowdowns slowdowns(plan.cluster);
  if (folds && slowdowns.empty() && carried.periodic.empty())
    folding = fold_alike({compiled, meetings, carried, topology, meter, recorded});
  uncarried.meter_unnoticed(folding);
  if (folding) carried = std::move(folding->traffic);
  for (LinkIndex link = 0; folding && link < topology.links(); ++link)
    recorded[link] = recorded[link] && folding->alike[link] > 0;
  meter.record_only(recorded);
  Network network(topology, std::move(carried), meter);
  std::vector<bool> watched(compiled.exchanges.size(), false);
  for (std::size_t e = 0; e < watched.size() && detail != Detail::totals; ++e)
    if (const NetworkExchange* exchange = recorded_exchange(compiled, meetings, traffic, e))
      watched[e] = !is_noticed(topology, *exchange, traffic.shared);
  SimgridRun result;
  result.run = run_streams({plan, compiled, folding ? folding->meetings : meetings, detail, watched, &network,
                            slowdowns.empty() ? nullptr : &slowdowns});
  meter_flights({topology, compiled, meetings, traffic}, result.run.flights, meter);
  result.links = link_timelines(topology, meter, folding, result.run, detail);
  result.flows = network.flows();
  result.shared_flows = network.shared_flows();
  for (const Index gpus : (folding ? folding->meetings : meetings).gpus) result.simulated += gpus;
  return result;
}

}  // namespace simrun
