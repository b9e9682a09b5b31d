#include "sim/tuned_flows.h"

#include <algorithm>
#include <functional>

#include "sim/collective_tuner.h"

namespace simrun {

ExchangeFlows TunedFlows::of(Opcode opcode, std::span<const std::int64_t> devices, double bytes) {
  if (devices.size() <= 1) return {};
  const auto [known, is_new] =
      known_.try_emplace({opcode, std::vector<std::int64_t>(devices.begin(), devices.end())});
  std::vector<TunedCollective> built;
  if (is_new) {
    built = collective_ways(topology_, cluster_, opcode, devices);
    for (const TunedCollective& way : built)
      known->second.emplace_back(way.choice, lockstep_costs(topology_, {&way.flows, 1}).together);
  }
  const WayCosts& ways = known->second;
  const auto fastest =
      std::ranges::min_element(ways, std::less<>(), [&](const auto& way) { return way.second.at(bytes); });
  if (is_new) return std::move(built[static_cast<std::size_t>(fastest - ways.begin())].flows);
  return flows_of_way(topology_, cluster_, opcode, devices, fastest->first);
}

}  // namespace simrun
