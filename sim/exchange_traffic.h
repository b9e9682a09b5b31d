#pragma once

#include <span>
#include <vector>

#include "sim/compiled_program.h"
#include "sim/meetings.h"
#include "sim/network.h"
#include "sim/other_jobs.h"
#include "sim/topology.h"

namespace simrun {

// What every exchange of a plan puts on which links, over all GPUs.
struct ExchangeTraffic {
  std::vector<std::vector<NetworkExchange>> flows;  // by exchange and position; a RECV has those of its SEND
  // By link: more than one group of GPUs, or one on more than one stream, uses it. On the others transfers
  // come one after the other and take their closed-form time.
  std::vector<bool> shared;
  // Of other jobs; links that these and the plan use are shared.
  std::vector<PeriodicExchange> other_jobs;
  std::vector<std::int64_t>
      executions;  // by exchange: times that each GPU of its pipeline rank runs it in the step
};

// `meetings` of every GPU; `cluster` is the plan's.
ExchangeTraffic exchange_traffic(const CompiledPlan& compiled, const Meetings& meetings,
                                 const Topology& topology, const Cluster& cluster);

// Whether any of the plan's exchanges crosses a link that other jobs use, too.
bool meets_other_jobs(const Topology& topology, const ExchangeTraffic& traffic);

// Whether any of the flows crosses a shared link.
bool uses_shared_link(const ExchangeFlows& flows, const std::vector<bool>& shared);

// Whether any of its flows occupies one of the links for longer than anybody notices, which is a nanosecond.
bool is_noticed(const Topology& topology, const NetworkExchange& exchange, const std::vector<bool>& links);

// Whether this exchange's entries stand for its traffic: a RECV's are its SEND's, and of a collective over
// several pipeline ranks those of the first count.
bool counts_traffic(const CompiledPlan& compiled, std::size_t exchange);

// What exchanges that begin together put on one link in one phase, all others kept away: until the phase of
// the last of them ends that uses the link, as flows keep pace (sim/carried_traffic.h).
struct LinkUse {
  LinkIndex link = 0;
  double bytes = 0;
  Picoseconds start = 0, end = 0;  // from the start of the exchanges
};
class LinkUses {
 public:
  explicit LinkUses(const Topology& topology)
      : topology_(topology), seconds_(topology.links(), 0), use_of_(topology.links(), no_index) {}
  const std::vector<LinkUse>& of(std::span<const NetworkExchange> exchanges);  // until the next call

 private:
  void add_phase(std::span<const NetworkExchange> exchanges, std::size_t phase, Picoseconds& begun);
  void add(LinkIndex link, double bytes, Picoseconds begun);

  const Topology& topology_;
  std::vector<double> seconds_;  // of the present phase, by link
  std::vector<Index> use_of_;    // into uses_, of the present phase
  std::vector<LinkUse> uses_;
};

}  // namespace simrun
