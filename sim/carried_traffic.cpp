#include "sim/carried_traffic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "sim/exchange_costs.h"

namespace simrun {

namespace {

std::uint32_t next_index(const auto& list) { return static_cast<std::uint32_t>(list.size()); }

// To 40 binary digits: flows that are alike get one ceiling in whatever order their loads were added.
double rounded(double rate) {
  int exponent = 0;
  const double mantissa = std::frexp(rate, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 40)), exponent - 40);
}

}  // namespace

void reserve(CarriedTraffic& traffic, std::span<const NetworkExchange* const> exchanges) {
  std::size_t phases = 0, flows = 0, links = 0;
  for (const NetworkExchange* exchange : exchanges)
    for (const FlowPhase& phase : exchange->flows()) {
      ++phases;
      flows += phase.flows.size();
      for (const SharedFlow& flow : phase.flows) links += flow.route.count();
    }
  traffic.phases.reserve(phases);
  traffic.flows.reserve(flows);
  traffic.links.reserve(links);
}

CarriedExchange TrafficAppender::append(const NetworkExchange& exchange) {
  const CarriedExchange carried{next_index(traffic_.phases), next_index(exchange.flows())};
  for (const FlowPhase& phase : exchange.flows()) append(phase, exchange.bytes);
  return carried;
}

void TrafficAppender::append(const FlowPhase& phase, double bytes) {
  traffic_.phases.push_back(
      {phase.latency_s, next_index(traffic_.flows), next_index(phase.flows), phase.independent});
  double pace = 0;  // seconds per byte of the exchange
  if (!phase.independent)
    for (const double busy : busy_seconds_per_byte(topology_, phase)) pace = std::max(pace, busy);
  for (const SharedFlow& flow : phase.flows) {
    const double own = phase.independent ? flow.share / most_rate(topology_, flow) : pace;
    traffic_.flows.push_back({next_index(traffic_.links), 0, flow.share * bytes, 1, ceiling(flow, own)});
    for (const LinkIndex link : flow.route.links()) traffic_.links.push_back({link});
    traffic_.flows.back().links = next_index(traffic_.links) - traffic_.flows.back().first_link;
  }
}

// None where the flow's links alone let it through no faster.
std::uint32_t TrafficAppender::ceiling(const SharedFlow& flow, double seconds_per_byte) {
  if (flow.share <= 0 || seconds_per_byte <= 0) return CarriedFlow::no_ceiling;
  const double rate = rounded(flow.share / seconds_per_byte);
  double of_links = std::numeric_limits<double>::infinity();
  for (const LinkIndex link : flow.route.links()) of_links = std::min(of_links, topology_.bandwidth(link));
  if (rate >= rounded(of_links)) return CarriedFlow::no_ceiling;
  const auto [found, is_new] = number_.try_emplace(rate, next_index(traffic_.ceilings));
  if (is_new) traffic_.ceilings.push_back(rate);
  return found->second;
}

namespace {

// Joins the flows of a phase, unless they are independent.
class StepJoiner {
 public:
  StepJoiner(const CarriedTraffic& from, LinkIndex links, CarriedTraffic& to)
      : from_(from), to_(to), place_(links, none) {}

  void join(const CarriedPhase& phase) {
    const std::span flows = std::span(from_.flows).subspan(phase.first_flow, phase.flows);
    if (phase.independent) return keep(phase, flows);
    to_.phases.push_back({phase.latency_s, next_index(to_.flows), flows.empty() ? 0U : 1U});
    if (flows.empty()) return;
    const auto largest = std::ranges::max_element(flows, {}, &CarriedFlow::bytes);
    const auto first = next_index(to_.links);
    CarriedFlow joined{first, 0, largest->bytes, 0, largest->ceiling};
    for (const CarriedFlow& flow : flows) {
      joined.alike += flow.alike;
      if (flow.bytes > 0 || largest->bytes <= 0)
        add_links(flow, largest->bytes > 0 ? flow.bytes / largest->bytes : 1);
    }
    joined.links = next_index(to_.links) - first;
    for (std::size_t i = first; i < to_.links.size(); ++i) place_[to_.links[i].link] = none;
    to_.flows.push_back(joined);
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  void keep(CarriedPhase phase, std::span<const CarriedFlow> flows) {
    phase.first_flow = next_index(to_.flows);
    to_.phases.push_back(phase);
    for (CarriedFlow flow : flows) {
      const std::span links = std::span(from_.links).subspan(flow.first_link, flow.links);
      flow.first_link = next_index(to_.links);
      to_.flows.push_back(flow);
      for (const CarriedLink& link : links) {
        to_.links.push_back(link);
        to_.weights.push_back(link.flows);
      }
    }
  }

  void add_links(const CarriedFlow& flow, double share) {
    for (std::size_t i = flow.first_link; i < std::size_t{flow.first_link} + flow.links; ++i) {
      const CarriedLink& link = from_.links[i];
      std::uint32_t& place = place_[link.link];
      if (place == none) {
        place = next_index(to_.links);
        to_.links.push_back({link.link, 0, 0});
        to_.weights.push_back(0);
      }
      CarriedLink& joined = to_.links[place];
      joined.flows += link.flows;
      joined.several |= link.several;
      to_.weights[place] += share * link.flows;
    }
  }

  const CarriedTraffic& from_;
  CarriedTraffic& to_;
  std::vector<std::uint32_t> place_;  // by link: in to_.links, of the phase that is being joined
};

}  // namespace

CarriedTraffic in_step(const CarriedTraffic& traffic, LinkIndex links) {
  CarriedTraffic joined;
  joined.exchanges = traffic.exchanges;
  joined.periodic = traffic.periodic;
  joined.ceilings = traffic.ceilings;
  joined.phases.reserve(traffic.phases.size());
  StepJoiner joiner(traffic, links, joined);
  for (const CarriedPhase& phase : traffic.phases) joiner.join(phase);
  return joined;
}

CarriedTraffic carried_traffic(const Topology& topology,
                               const std::vector<std::vector<NetworkExchange>>& exchanges) {
  CarriedTraffic traffic;
  TrafficAppender appender(topology, traffic);
  for (const std::vector<NetworkExchange>& positions : exchanges) {
    std::vector<CarriedExchange>& carried = traffic.exchanges.emplace_back();
    for (const NetworkExchange& exchange : positions) carried.push_back(appender.append(exchange));
  }
  return traffic;
}

}  // namespace simrun
