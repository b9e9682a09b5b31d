#include "planner/pareto_front.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace simrun {
namespace {

// Of neighbours in one bucket the first and the last. REQUIRES: a front.
void thin_front(std::vector<CostPoint>& front, const ChoiceLimits& limits) {
  const double width = limits.memory / static_cast<double>(limits.buckets);
  const auto bucket_of = [&](const CostPoint& point) { return std::floor(point.memory / width); };
  std::size_t kept = 0;
  for (std::size_t i = 0; i < front.size(); ++i) {
    const bool is_first = i == 0 || bucket_of(front[i]) != bucket_of(front[i - 1]);
    const bool is_last = i + 1 == front.size() || bucket_of(front[i]) != bucket_of(front[i + 1]);
    if (is_first || is_last) front[kept++] = front[i];
  }
  front.resize(kept);
}

}  // namespace

void add_front(std::vector<CostPoint>& front, std::span<const CostPoint> other, const ChoiceLimits& limits,
               std::vector<CostPoint>& room) {
  if (!limits.front) {
    front.insert(front.end(), other.begin(), other.end());
    return;
  }
  room.clear();
  double cheapest = std::numeric_limits<double>::infinity();
  const auto add = [&](const CostPoint& point) {
    if (point.cost >= cheapest) return;
    cheapest = point.cost;
    room.push_back(point);
  };
  std::size_t next = 0;
  for (const CostPoint& point : other) {
    for (; next < front.size() && is_smaller(front[next], point); ++next) add(front[next]);
    add(point);
  }
  for (; next < front.size(); ++next) add(front[next]);
  std::swap(front, room);
}

void keep_front(std::vector<CostPoint>& points, const ChoiceLimits& limits) {
  if (!limits.front) {
    if (points.size() <= 1) return;
    points.front() = *std::min_element(points.begin(), points.end(), is_cheaper);
    points.resize(1);
    return;
  }
  std::erase_if(points, [&](const CostPoint& point) { return point.memory > limits.memory; });
  if (points.size() <= 1) return;
  if (!std::is_sorted(points.begin(), points.end(), is_smaller))
    std::sort(points.begin(), points.end(), is_smaller);
  std::size_t kept = 1;
  for (std::size_t i = 1; i < points.size(); ++i)
    if (points[i].cost < points[kept - 1].cost) points[kept++] = points[i];
  points.resize(kept);
  if (limits.buckets > 0 && std::isfinite(limits.memory)) thin_front(points, limits);
}

}  // namespace simrun
