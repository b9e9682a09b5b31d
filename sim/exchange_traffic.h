#pragma once

#include <vector>

#include "sim/compiled_program.h"
#include "sim/meetings.h"
#include "sim/network.h"
#include "sim/topology.h"

namespace simrun {

// What every exchange of a plan puts on which links, over all GPUs.
struct ExchangeTraffic {
  std::vector<std::vector<NetworkExchange>> flows;  // by exchange and position; a RECV has those of its SEND
  // By link: more than one group of GPUs, or one on more than one stream, uses it. On the others transfers
  // come one after the other and take their closed-form time.
  std::vector<bool> shared;
  std::vector<std::int64_t>
      executions;  // by exchange: times that each GPU of its pipeline rank runs it in the step
};

// `meetings` of every GPU.
ExchangeTraffic exchange_traffic(const Plan& plan, const CompiledPlan& compiled, const Meetings& meetings,
                                 const Topology& topology);

// Whether any of the flows crosses a shared link.
bool uses_shared_link(const ExchangeFlows& flows, const std::vector<bool>& shared);

// One flow of an exchange that has its links for itself.
struct LoneFlow {
  const SharedFlow* flow = nullptr;
  double bytes = 0;
  Picoseconds start = 0, end = 0;  // from the start of the exchange
};
class LoneFlows {
 public:
  explicit LoneFlows(const Topology& topology) : topology_(topology), load_(topology.links(), 0) {}
  const std::vector<LoneFlow>& of(const NetworkExchange& exchange);  // until the next call

 private:
  const Topology& topology_;
  std::vector<double> load_;  // seconds of the present phase, by link
  std::vector<LoneFlow> flows_;
};

}  // namespace simrun
