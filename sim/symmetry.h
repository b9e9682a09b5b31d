#pragma once

#include <optional>
#include <vector>

#include "sim/carried_traffic.h"
#include "sim/link_meter.h"
#include "sim/meetings.h"

namespace simrun {

// A run of which GPUs, meetings, flows and links that are alike are simulated once.
struct Folding {
  Meetings meetings;
  CarriedTraffic traffic;
  std::vector<LinkIndex> leader;    // by link: the one that stands for it
  std::vector<std::int64_t> alike;  // by link: links that it stands for; 0: another one does
};

// `meetings` of every GPU, `traffic` for every flow, and what `meter` has of exchanges that are not carried.
// `recorded`: links of which the use over time is wanted; they stand for others rather than be stood for.
struct FoldInput {
  const CompiledPlan& compiled;
  const Meetings& meetings;
  const CarriedTraffic& traffic;
  const Topology& topology;
  const LinkMeter& meter;
  const std::vector<bool>& recorded;
};

// At first GPUs are alike that run the same code, exchanges that last as long, flows that move as many bytes,
// links of one kind and bandwidth. Then those are set apart that meet different numbers of some class, until
// none are (sim/equitable_partition.h). In the end every link of a class is crossed by equally many flows of
// any class, and so on: max-min rates, and with them all dates, are then equal within classes, because
// progressive filling and the streams' rules see nothing but these numbers. So one of each class is
// simulated, a flow with the weight of all its like on a link: no date changes. Identical rails, replicas and
// ranks fold; what an uneven leaf, a lone neighbour or a hash of routes tells apart does not.
//
// None where nothing folds, or with parameter servers.
std::optional<Folding> fold_alike(const FoldInput& input);

// The same where every exchange has its links for itself: `meetings` of every GPU, folded if they fold.
Meetings fold_alike_alone(const CompiledPlan& compiled, const Topology& topology, Meetings meetings);

}  // namespace simrun
