#include "sim/carried_traffic.h"

namespace simrun {

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

CarriedExchange append(CarriedTraffic& traffic, const NetworkExchange& exchange) {
  const auto next = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  const CarriedExchange carried{next(traffic.phases), next(exchange.flows())};
  for (const FlowPhase& phase : exchange.flows()) {
    traffic.phases.push_back({phase.latency_s, next(traffic.flows), next(phase.flows)});
    for (const SharedFlow& flow : phase.flows) {
      traffic.flows.push_back({next(traffic.links), 0, flow.share * exchange.bytes, 1, flow.connections});
      for (const LinkIndex link : flow.route.links()) traffic.links.push_back({link});
      traffic.flows.back().links = next(traffic.links) - traffic.flows.back().first_link;
    }
  }
  return carried;
}

CarriedTraffic carried_traffic(const std::vector<std::vector<NetworkExchange>>& exchanges) {
  CarriedTraffic traffic;
  for (const std::vector<NetworkExchange>& positions : exchanges) {
    std::vector<CarriedExchange>& carried = traffic.exchanges.emplace_back();
    for (const NetworkExchange& exchange : positions) carried.push_back(append(traffic, exchange));
  }
  return traffic;
}

}  // namespace simrun
