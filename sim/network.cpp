#include "sim/network.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/kernel_cost.h"

namespace simrun {

Network::Network(const Topology& topology, CarriedTraffic traffic, LinkMeter& meter)
    : traffic_(flow_solvers().front() == FlowSolver::lmm ? in_step(traffic, topology.links())
                                                         : std::move(traffic)),
      meter_(meter),
      links_(topology.links()) {
  number_.assign(topology.links(), 0);
  std::vector<bool> used(topology.links(), false);
  for (const CarriedLink& link : traffic_.links) used[link.link] = true;
  bandwidth_.assign(topology.links(), 0);
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    if (!used[link]) continue;
    bandwidth_[link] = topology.bandwidth(link);
    number_[link] = engine_.link(bandwidth_[link]);
  }
  for (const double ceiling : traffic_.ceilings) ceilings_.push_back(engine_.ceiling(ceiling));
}

std::uint64_t Network::add_event(Picoseconds date, Event event, Index number) {
  calendar_.push({date, event, ++order_, number});
  return order_;
}

Index Network::new_transfer(const CarriedExchange& carried) {
  Index number = static_cast<Index>(transfers_.size());
  if (free_transfers_.empty()) {
    transfers_.emplace_back();
  } else {
    number = free_transfers_.back();
    free_transfers_.pop_back();
  }
  transfers_[number] = {.phase = carried.first_phase, .phases_end = carried.first_phase + carried.phases};
  return number;
}

void Network::post(Index exchange, Index position, Picoseconds at, Index ticket) {
  assert(at >= now_ && "a transfer was posted in the network's past");
  const Index number = new_transfer(traffic_.exchanges[exchange][position]);
  transfers_[number].ticket = ticket;
  ++pending_;
  begin_phase(number, at);
}

// Once nothing is pending, no other job begins anything: what it has begun ends unseen.
void Network::begin_period(Index periodic) {
  if (pending_ == 0) return;
  const CarriedExchange& exchange = traffic_.periodic[periodic].exchange;
  period_began_[periodic] = now_;
  if (exchange.phases == 0) return;
  const Index number = new_transfer(exchange);
  transfers_[number].periodic = periodic;
  begin_phase(number, now_);
}

void Network::report(Index ticket, Picoseconds date) {
  --pending_;
  (*ended_)(ticket, date);
  if (pending_ == 0 && !traffic_.periodic.empty()) stop_metering();
}

// What other jobs have yet to move is not of this step.
void Network::stop_metering() {
  for (Index number = 0; number < live_.size(); ++number) {
    const LiveFlow& flow = live_[number];
    if (flow.ended) continue;
    const double left = flow.alone ? flow.bytes * static_cast<double>(flow.end - now_) /
                                         static_cast<double>(std::max<Picoseconds>(flow.end - flow.start, 1))
                                   : engine_.remaining(number);
    meter(number, flow.bytes - left);
    for (const CarriedLink& link : links_of(*flow.flow)) meter_.end(link, flow.transfer, now_);
  }
  metering_ = false;
}

void Network::begin_phase(Index transfer, Picoseconds at) {
  const CarriedPhase& phase = traffic_.phases[transfers_[transfer].phase];
  add_event(at + to_picoseconds(phase.latency_s), Event::phase_starts, transfer);
}

void Network::start_flows(Index transfer) {
  const CarriedPhase& phase = traffic_.phases[transfers_[transfer].phase];
  transfers_[transfer].pending = phase.flows;
  if (phase.flows == 0) return end_transfer(transfer);
  for (Index f = phase.first_flow; f < phase.first_flow + phase.flows; ++f)
    start_flow(transfer, traffic_.flows[f]);
}

void Network::start_flow(Index transfer, const CarriedFlow& flow) {
  const std::span<const CarriedLink> links = links_of(flow);
  started_ += flow.alike;
  meter_neighbours(flow);
  bool alone = true, meets_its_like = false;
  double rate = is_limited(flow) ? traffic_.ceilings[flow.ceiling] : std::numeric_limits<double>::infinity();
  for (const CarriedLink& link : links) {
    rate = std::min(rate, bandwidth_[link.link] / weight(link));
    meets_its_like = meets_its_like || link.flows > 1;
    alone = alone && links_[link.link].live == 0;
    if (links_[link.link].alone != no_index) hand_over(links_[link.link].alone);
  }
  Index number = static_cast<Index>(live_.size());
  if (free_flows_.empty()) {
    live_.emplace_back();
  } else {
    number = free_flows_.back();
    free_flows_.pop_back();
  }
  LiveFlow& live = live_[number];
  live = {.flow = &flow,
          .transfer = transfer,
          .alone = alone,
          .counted = meets_its_like,
          .bytes = flow.bytes,
          .start = now_,
          .end = now_,
          .metered_until = now_};
  if (meets_its_like) handed_over_ += flow.alike;
  for (const CarriedLink& link : links) {
    ++links_[link.link].live;
    if (alone) links_[link.link].alone = number;
    if (metering_) meter_.begin(link, transfer, now_);
  }
  if (!alone) return give_to_engine(number, flow.bytes);
  live.end = now_ + to_picoseconds(flow.bytes / rate);
  live.order = add_event(live.end, Event::flow_ends, number);
}

// A flow that was alone gets company: SimGrid moves what is left of it.
void Network::hand_over(Index number) {
  LiveFlow& flow = live_[number];
  const double share = flow.end > flow.start
                           ? static_cast<double>(flow.end - now_) / static_cast<double>(flow.end - flow.start)
                           : 0;
  meter(number, flow.bytes * (1 - share));
  flow.alone = false;
  for (const CarriedLink& link : links_of(*flow.flow)) links_[link.link].alone = no_index;
  give_to_engine(number, flow.bytes * share);
}

void Network::give_to_engine(Index number, double bytes) {
  LiveFlow& live = live_[number];
  numbers_.clear();
  weights_.clear();
  bool weighs = false;
  for (const CarriedLink& link : links_of(*live.flow)) {
    numbers_.push_back(number_[link.link]);
    weights_.push_back(weight(link));
    weighs = weighs || weights_.back() != 1;
    if (meter_.records(link.link)) links_[link.link].shared.push_back(number);
  }
  if (is_limited(*live.flow)) {
    numbers_.push_back(ceilings_[live.flow->ceiling]);
    weights_.push_back(1);
  }
  engine_.start(numbers_, bytes, to_seconds(now_), number, weighs ? weights_ : std::span<const double>());
  if (!std::exchange(live.counted, true)) handed_over_ += live.flow->alike;
}

// Tells the meter how far the flows got that share a recorded link with this one: their rates change now.
void Network::meter_neighbours(const CarriedFlow& flow) {
  for (const CarriedLink& link : links_of(flow))
    for (const Index number : links_[link.link].shared)
      meter(number, live_[number].bytes - engine_.remaining(number));
}

void Network::meter(Index number, double moved) {
  if (!metering_) return;
  LiveFlow& flow = live_[number];
  for (const CarriedLink& link : links_of(*flow.flow))
    meter_.move(link.link, weight(link) * (moved - flow.metered), flow.metered_until, now_);
  flow.metered = moved;
  flow.metered_until = now_;
}

void Network::end_flow(Index number) {
  const LiveFlow flow = live_[number];
  live_[number].ended = true;
  meter(number, flow.bytes);
  for (const CarriedLink& link : links_of(*flow.flow)) {
    LinkState& state = links_[link.link];
    --state.live;
    state.alone = no_index;
    if (!flow.alone) std::erase(state.shared, number);
    if (metering_) meter_.end(link, flow.transfer, now_);
  }
  free_flows_.push_back(number);
  if (!flow.alone) meter_neighbours(*flow.flow);
  if (--transfers_[flow.transfer].pending == 0) end_transfer(flow.transfer);
}

// The phase is over.
void Network::end_transfer(Index number) {
  Transfer& transfer = transfers_[number];
  if (++transfer.phase < transfer.phases_end) return begin_phase(number, now_);
  const Transfer over = transfer;
  free_transfers_.push_back(number);
  if (over.periodic == no_index) return report(over.ticket, now_);
  const Picoseconds due = period_began_[over.periodic] + traffic_.periodic[over.periodic].period;
  add_event(std::max(due, now_), Event::period_begins, over.periodic);
}

void Network::fire_due() {
  while (!calendar_.empty() && calendar_.top().date <= now_) {
    const CalendarEntry entry = calendar_.top();
    calendar_.pop();
    if (entry.event == Event::phase_starts)
      start_flows(entry.number);
    else if (entry.event == Event::alarm)
      report(entry.number, entry.date);
    else if (entry.event == Event::period_begins)
      begin_period(entry.number);
    else if (live_[entry.number].alone && live_[entry.number].order == entry.order)
      end_flow(entry.number);
  }
}

// While the flow engine runs it must stop at this calendar's next date; if it is idle, this calendar goes
// on alone.
void Network::arm() {
  if (calendar_.empty() || (engine_.live() == 0 && wakes_.empty())) return;
  const Picoseconds date = calendar_.top().date;
  if (!wakes_.empty() && *wakes_.begin() <= date) return;
  wakes_.insert(date);
  engine_.wake(to_seconds(date));
}

void Network::run(const Ended& ended) {
  ended_ = &ended;
  const auto done = [this](FlowNumber flow) {
    now_ = std::max(now_, to_picoseconds(engine_.now()));
    end_flow(static_cast<Index>(flow));
    fire_due();
    arm();
  };
  const auto woken = [this] {
    now_ = std::max(now_, *wakes_.begin());
    wakes_.erase(wakes_.begin());
    fire_due();
    arm();
  };
  if (period_began_.empty()) {
    period_began_.resize(traffic_.periodic.size());
    for (Index p = 0; p < period_began_.size(); ++p)
      add_event(traffic_.periodic[p].phase, Event::period_begins, p);
  }
  while (!calendar_.empty() || engine_.live() > 0) {
    if (engine_.live() > 0) {
      arm();
      engine_.run(done, woken);
    } else {
      now_ = std::max(now_, calendar_.top().date);
      fire_due();
    }
  }
}

}  // namespace simrun
