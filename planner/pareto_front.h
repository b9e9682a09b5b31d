#pragma once

#include <span>
#include <vector>

#include "planner/choice_graph.h"

namespace simrun {

struct CostPoint {
  double cost = 0;    // seconds
  double memory = 0;  // bytes
  bool operator==(const CostPoint&) const = default;
};
inline bool is_cheaper(const CostPoint& a, const CostPoint& b) {
  return a.cost < b.cost || (a.cost == b.cost && a.memory < b.memory);
}
inline bool is_smaller(const CostPoint& a, const CostPoint& b) {
  return a.memory < b.memory || (a.memory == b.memory && a.cost < b.cost);
}

// Leaves the points that no other beats in both, ascending in memory and so falling in cost, and of those
// only what the limits want: points within limits.memory, the cheapest alone without limits.front, and two
// per bucket where lists are thinned (the reference's measurement: fewer than 512 buckets, or the cheapest of
// each alone, lose the optimum or all that is feasible).
void keep_front(std::vector<CostPoint>& points, const ChoiceLimits& limits);

// The front of two, before lists are thinned. `room`: for the points, used again and again.
void add_front(std::vector<CostPoint>& front, std::span<const CostPoint> other, const ChoiceLimits& limits,
               std::vector<CostPoint>& room);

// As many of a front as are wanted: its end.
inline std::span<const CostPoint> cheapest_points(std::span<const CostPoint> front,
                                                  const ChoiceLimits& limits) {
  return front.last(front.size() < limits.choices ? front.size() : limits.choices);
}

}  // namespace simrun
