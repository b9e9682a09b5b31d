#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/exchange_costs.h"

namespace simrun {

// The choices of tuned_collective(), for many exchanges of the same groups: what each way takes is kept, by
// group.
class TunedFlows {
 public:
  // Both must outlive it.
  TunedFlows(const Topology& topology, const Cluster& cluster) : topology_(topology), cluster_(cluster) {}
  // The fastest way; `devices` ascending, more than one, `bytes` of the whole tensor.
  CollectiveChoice fastest(Opcode opcode, std::span<const std::int64_t> devices, double bytes);

 private:
  using WayCosts = std::vector<std::pair<CollectiveChoice, LinearCost>>;
  const Topology& topology_;
  const Cluster& cluster_;
  std::map<std::pair<Opcode, std::vector<std::int64_t>>, WayCosts> known_;
};

}  // namespace simrun
