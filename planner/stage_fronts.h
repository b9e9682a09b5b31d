#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planner/alpa_graph.h"
#include "planner/chain_tables.h"

namespace simrun {

// What runs of segments of one StageGraph cost at best: [first, last) of any kind, each a chain of its own.
// Runs that begin with like segments share what they have in common: of a model with identical layers as many
// runs are solved as it has layers, three times (from its start, from any layer, to its end).
class StageFronts {
 public:
  // With so many microbatches in flight. The stage must outlive it.
  StageFronts(const StageGraph& stage, std::int64_t in_flight, const ChoiceLimits& limits);

  // The front of [first, last); empty where it does not fit. Costs grow with `last`.
  const std::vector<CostPoint>& of(std::int32_t first, std::int32_t last);

 private:
  struct Run {
    ChainFronts fronts;
    std::map<const ChainTables::Entry*, std::unique_ptr<Run>> longer;
    std::vector<CostPoint> total;
  };
  Run& extended(Run& run, const ChainTables::Entry& entry);
  const ChainTables::Entry& entry_of(std::int32_t segment);

  const StageGraph& stage_;
  std::int64_t in_flight_;
  ChainTables tables_;
  StageChoices whole_;
  std::vector<SegmentNodes> segments_;
  std::vector<const ChainTables::Entry*> entries_;  // by segment, behind another one
  Run none_;
  std::map<std::int32_t, std::vector<Run*>> known_;  // by first segment and number of further ones
};

}  // namespace simrun
