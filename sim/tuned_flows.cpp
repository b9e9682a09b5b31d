#include "sim/tuned_flows.h"

#include <algorithm>
#include <functional>

#include "sim/collective_tuner.h"

namespace simrun {

CollectiveChoice TunedFlows::fastest(Opcode opcode, std::span<const std::int64_t> devices, double bytes) {
  const auto [known, is_new] =
      known_.try_emplace({opcode, std::vector<std::int64_t>(devices.begin(), devices.end())});
  WayCosts& ways = known->second;
  if (is_new)
    for (const TunedCollective& way : collective_ways(topology_, cluster_, opcode, devices))
      ways.emplace_back(way.choice, lockstep_costs(topology_, {&way.flows, 1}).together);
  return std::ranges::min_element(ways, std::less<>(), [&](const auto& way) { return way.second.at(bytes); })
      ->first;
}

}  // namespace simrun
