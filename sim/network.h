#pragma once

#include <functional>
#include <queue>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "schedules/timeline.h"
#include "sim/carried_traffic.h"
#include "sim/flow_engine.h"
#include "sim/link_meter.h"
#include "sim/topology.h"

namespace simrun {

// The exchanges that go over shared links, on SimGrid's fluid network, beside those of other jobs, which come
// again as long as anything is posted. A flow whose links nobody else uses
// while it lives is its bytes over its slowest link and needs no event in SimGrid; it is handed over, with
// what it has yet to move, when a second one joins. Latency passes in this calendar before flows start.
class Network {
 public:
  // The meter must outlive it. Flows that stand for several need FlowSolver::lmm.
  Network(const Topology& topology, CarriedTraffic traffic, LinkMeter& meter);
  Network(const Topology& topology, const std::vector<std::vector<NetworkExchange>>& exchanges,
          LinkMeter& meter)
      : Network(topology, carried_traffic(topology, exchanges), meter) {}

  bool carries(Index exchange, Index position) const {
    return !traffic_.exchanges[exchange].empty() && traffic_.exchanges[exchange][position].phases > 0;
  }

  // Begins an exchange at a time that run() has not passed; its end is reported with `ticket`.
  void post(Index exchange, Index position, Picoseconds at, Index ticket);

  // Reports `ticket` at a date that run() has not passed, as if an exchange ended.
  void alarm(Picoseconds at, Index ticket) {
    ++pending_;
    add_event(at, Event::alarm, ticket);
  }

  // Reports the end of every exchange in order of time; `ended` may post others. Returns when none is left.
  using Ended = std::function<void(Index ticket, Picoseconds end)>;
  void run(const Ended& ended);

  std::int64_t flows() const { return started_; }
  std::int64_t shared_flows() const { return handed_over_; }  // that SimGrid had to share links for

 private:
  struct Transfer {  // a posted exchange
    Index ticket = 0;
    Index phase = 0, phases_end = 0;  // into CarriedTraffic::phases
    Index pending = 0;                // flows of the phase
    Index periodic = no_index;        // of another job: into CarriedTraffic::periodic; it has no ticket
  };
  struct LiveFlow {
    const CarriedFlow* flow = nullptr;
    Index transfer = 0;
    bool alone = true;
    bool counted = false;  // in handed_over_
    bool ended = false;
    double bytes = 0;
    Picoseconds start = 0, end = 0;  // end: if it stays alone
    std::uint64_t order = 0;         // of the calendar entry for that end
    double metered = 0;              // bytes that the meter knows of
    Picoseconds metered_until = 0;
  };
  enum class Event : std::uint8_t { flow_ends, phase_starts, alarm, period_begins };
  struct CalendarEntry {
    Picoseconds date = 0;
    Event event = Event::flow_ends;
    std::uint64_t order = 0;
    Index number = 0;  // flow, transfer, ticket or periodic exchange
    bool operator>(const CalendarEntry& other) const {
      return std::tie(date, event, order) > std::tie(other.date, other.event, other.order);
    }
  };

  std::uint64_t add_event(Picoseconds date, Event event, Index number);
  Index new_transfer(const CarriedExchange& carried);
  void begin_period(Index periodic);
  void report(Index ticket, Picoseconds date);
  void stop_metering();
  void fire_due();
  void arm();
  void begin_phase(Index transfer, Picoseconds at);
  void start_flows(Index transfer);
  void start_flow(Index transfer, const CarriedFlow& flow);
  void hand_over(Index flow);
  void give_to_engine(Index flow, double bytes);
  static bool is_limited(const CarriedFlow& flow) { return flow.ceiling != CarriedFlow::no_ceiling; }
  std::span<const CarriedLink> links_of(const CarriedFlow& flow) const {
    return {traffic_.links.data() + flow.first_link, flow.links};
  }
  // Of a link of the traffic: its rate / the flow's.
  double weight(const CarriedLink& link) const {
    return traffic_.weights.empty()
               ? link.flows
               : traffic_.weights[static_cast<std::size_t>(&link - traffic_.links.data())];
  }
  void end_flow(Index flow);
  void end_transfer(Index transfer);
  void meter_neighbours(const CarriedFlow& flow);
  void meter(Index flow, double moved);

  struct LinkState {
    Index live = 0;
    Index alone = no_index;     // the flow, if it is the only one and not in SimGrid
    std::vector<Index> shared;  // flows in SimGrid, kept where the link is recorded
  };

  const CarriedTraffic traffic_;
  LinkMeter& meter_;
  FlowEngine engine_;
  std::vector<double> bandwidth_;     // by link
  std::vector<LinkNumber> number_;    // in the flow engine, by link
  std::vector<LinkNumber> ceilings_;  // there, as in the traffic
  std::vector<LinkState> links_;
  std::vector<LinkNumber> numbers_;  // of the flow that is being started
  std::vector<double> weights_;
  std::vector<Transfer> transfers_;
  std::vector<Index> free_transfers_;
  std::vector<LiveFlow> live_;
  std::vector<Index> free_flows_;
  std::priority_queue<CalendarEntry, std::vector<CalendarEntry>, std::greater<>> calendar_;
  std::uint64_t order_ = 0;
  Picoseconds now_ = 0;
  std::size_t pending_ = 0;                // posted exchanges and alarms that have not been reported
  std::vector<Picoseconds> period_began_;  // by periodic exchange; empty: not yet
  bool metering_ = true;                   // until nothing is pending
  std::multiset<Picoseconds> wakes_;       // that the flow engine owes
  const Ended* ended_ = nullptr;
  std::int64_t started_ = 0, handed_over_ = 0;
};

}  // namespace simrun
