#pragma once

#include <vector>

#include "sim/exchange_traffic.h"
#include "sim/stream_engine.h"

namespace simrun {

// What the fast engine left out: its transfers run as if each had its links for itself.
struct Contention {
  std::int64_t overlapping = 0;  // transfers of the recorded GPUs that overlap another one on a link
  // Share of the step that it may be short. A link asked for more than its bandwidth falls behind by the
  // integral of the excess; of every pipeline rank the worst link of either direction counts, added up,
  // because a chain of passes can meet them all.
  double bound = 0;
  std::vector<LinkTimeline> links;  // as Timeline::links; links with equal traffic are one
};

// A step that is so much longer by its excess meets the same share of it again, and again: e + e^2 + ... Both
// as shares of the step; each is the other's inverse.
double bound_of_excess(double excess);
double excess_of_bound(double bound);

// Links of which a Timeline has the use over time, at most: lanes of the page.
constexpr std::size_t recorded_link_limit = 64;

// `flights` by the recorded GPUs: of every exchange that uses a shared link; of all, for their use over time.
struct FastRun {
  const CompiledPlan& compiled;
  const Meetings& meetings;  // of every GPU
  const ExchangeTraffic& traffic;
  const std::vector<Flight>& flights;
  Picoseconds step = 0;
};
Contention find_contention(const Topology& topology, const FastRun& run, Detail detail);

// Those first whose bytes take longest at full bandwidth, then the busiest, then by name. Links with equal
// figures and equal use over time become one; those of which that is not recorded join the first with their
// figures.
void order_links(std::vector<LinkTimeline>& links);

}  // namespace simrun
