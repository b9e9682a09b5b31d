#pragma once

#include <memory>
#include <vector>

#include "planner/elimination.h"

namespace simrun {

// The nodes of one segment of a graph, ascending, and the one that the next segment is joined to.
struct SegmentNodes {
  std::vector<std::size_t> nodes;
  std::size_t exit = 0;
};

// In ascending order of their numbers. The exit is the node with most edges to the next segment, the first of
// equals; of a segment without any, the last node.
std::vector<SegmentNodes> segments_of(const ChoiceGraph& graph);
std::size_t segment_index(const std::vector<SegmentNodes>& segments, std::size_t node);

// Minimised segments, each distinct one once.
class ChainTables {
 public:
  explicit ChainTables(const ChoiceLimits& limits) : limits_(limits) {}
  const ChoiceLimits& limits() const { return limits_; }

  struct Entry {
    ChoiceGraph graph;  // node 0: the exit before, without its own costs; then the segment's nodes
    std::size_t exit = 0;
    std::unique_ptr<Elimination> elimination;  // over {0, exit}
  };
  // Of `graph`'s segment s.
  const Entry& of(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments, std::size_t s);
  std::size_t distinct() const { return entries_.size(); }

 private:
  ChoiceLimits limits_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

// What the segments up to one cost at best, by strategy of the last one's exit.
using ChainFronts = std::vector<std::vector<CostPoint>>;
ChainFronts first_fronts(const ChainTables::Entry& entry, const ChoiceLimits& limits);
ChainFronts next_fronts(const ChainFronts& before, const ChainTables::Entry& entry,
                        const ChoiceLimits& limits);
// Over all strategies of the exit.
std::vector<CostPoint> total_front(const ChainFronts& fronts, const ChoiceLimits& limits);

using ChainEntries = std::vector<const ChainTables::Entry*>;  // by segment
ChainEntries entries_along(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments,
                           ChainTables& tables);

// Of a graph whose edges join neighbouring segments at the exits only: its choices, and the cost of the
// cheapest alone (infinite: there is none).
std::vector<Choice> choose_along(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments,
                                 const ChainEntries& entries, const ChoiceLimits& limits);
double least_along(const ChainEntries& entries, const ChoiceLimits& limits);

}  // namespace simrun
