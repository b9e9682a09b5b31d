#include "planner/chain_tables.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

namespace simrun {

std::size_t segment_index(const std::vector<SegmentNodes>& segments, std::size_t node) {
  for (std::size_t s = 0; s < segments.size(); ++s)
    if (std::binary_search(segments[s].nodes.begin(), segments[s].nodes.end(), node)) return s;
  assert(false && "every node is in a segment");
  return 0;
}

std::vector<SegmentNodes> segments_of(const ChoiceGraph& graph) {
  std::map<std::int32_t, SegmentNodes> by_number;
  for (std::size_t v = 0; v < graph.nodes.size(); ++v) by_number[graph.nodes[v].segment].nodes.push_back(v);
  std::vector<SegmentNodes> segments;
  std::map<std::int32_t, std::size_t> place;
  for (auto& [number, segment] : by_number) {
    place[number] = segments.size();
    segments.push_back(std::move(segment));
  }
  std::vector<std::size_t> leaving(graph.nodes.size(), 0);
  for (const ChoiceEdge& edge : graph.edges) {
    const std::size_t first = std::min(edge.from, edge.to), last = std::max(edge.from, edge.to);
    if (place[graph.nodes[first].segment] + 1 == place[graph.nodes[last].segment]) ++leaving[first];
  }
  for (SegmentNodes& segment : segments) {
    segment.exit = segment.nodes.back();
    for (const std::size_t node : segment.nodes)
      if (leaving[node] > leaving[segment.exit]) segment.exit = node;
  }
  return segments;
}

namespace {

ChoiceGraph local_graph(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments, std::size_t s) {
  ChoiceGraph local;
  std::map<std::size_t, std::size_t> number;
  ChoiceNode entry{{0}, {0}};
  if (s > 0) {
    const std::size_t before = segments[s - 1].exit;
    entry.cost.assign(graph.nodes[before].cost.size(), 0);
    entry.memory.assign(entry.cost.size(), 0);
    number[before] = 0;
  }
  local.nodes.push_back(std::move(entry));
  for (const std::size_t node : segments[s].nodes) {
    number[node] = local.nodes.size();
    local.nodes.push_back(graph.nodes[node]);
    local.nodes.back().segment = 0;
  }
  const auto is_own = [&](std::size_t node) {
    return std::binary_search(segments[s].nodes.begin(), segments[s].nodes.end(), node);
  };
  for (const ChoiceEdge& edge : graph.edges)
    if (is_own(std::max(edge.from, edge.to)) && number.count(edge.from) > 0 && number.count(edge.to) > 0)
      local.edges.push_back({number[edge.from], number[edge.to], edge.cost});
  return local;
}

}  // namespace

const ChainTables::Entry& ChainTables::of(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments,
                                          std::size_t s) {
  ChoiceGraph local = local_graph(graph, segments, s);
  const std::vector<std::size_t>& nodes = segments[s].nodes;
  const auto place = std::lower_bound(nodes.begin(), nodes.end(), segments[s].exit) - nodes.begin();
  const std::size_t exit = static_cast<std::size_t>(place) + 1;
  for (const std::unique_ptr<Entry>& known : entries_)
    if (known->exit == exit && known->graph == local) return *known;
  auto entry = std::make_unique<Entry>();
  entry->exit = exit;
  entry->elimination = std::make_unique<Elimination>(local, std::vector<std::size_t>{0, exit}, limits_);
  entry->graph = std::move(local);
  entries_.push_back(std::move(entry));
  return *entries_.back();
}

namespace {

std::size_t strategies_before(const ChainTables::Entry& entry) { return entry.graph.nodes[0].cost.size(); }
std::size_t strategies_at_exit(const ChainTables::Entry& entry) {
  return entry.graph.nodes[entry.exit].cost.size();
}

CostPoint plus(CostPoint a, CostPoint b) { return {a.cost + b.cost, a.memory + b.memory}; }

// Sums of points as they come in, two per bucket: no list of all of them is made.
class BucketedPoints {
 public:
  explicit BucketedPoints(const ChoiceLimits& limits)
      : limits_(limits),
        width_(limits.memory / static_cast<double>(std::max<std::size_t>(limits.buckets, 1))) {
    if (is_bucketed()) buckets_.resize(limits.buckets + 1);
  }

  // `front`: ascending in memory.
  void add_sums(CostPoint step, std::span<const CostPoint> front) {
    for (const CostPoint& so_far : front) {
      const CostPoint sum = plus(so_far, step);
      if (limits_.front && sum.memory > limits_.memory) return;
      add(sum);
    }
  }

  // Empty behind it.
  std::vector<CostPoint> take() {
    std::vector<CostPoint> points = std::exchange(all_, {});
    for (Bucket& bucket : buckets_) {
      if (bucket.smallest.memory == none.memory) continue;
      points.push_back(bucket.smallest);
      points.push_back(bucket.cheapest);
      bucket = {};
    }
    keep_front(points, limits_);
    return points;
  }

 private:
  static constexpr CostPoint none{std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::infinity()};
  struct Bucket {
    CostPoint cheapest = none, smallest = none;
  };
  bool is_bucketed() const {
    return limits_.front && limits_.buckets > 0 && limits_.memory < std::numeric_limits<double>::infinity();
  }
  void add(const CostPoint& sum) {
    if (!buckets_.empty()) {
      Bucket& bucket = buckets_[static_cast<std::size_t>(sum.memory / width_)];
      if (is_cheaper(sum, bucket.cheapest)) bucket.cheapest = sum;
      if (is_smaller(sum, bucket.smallest)) bucket.smallest = sum;
    } else if (limits_.front || all_.empty()) {
      all_.push_back(sum);
    } else if (is_cheaper(sum, all_.front())) {
      all_.front() = sum;
    }
  }
  const ChoiceLimits& limits_;
  double width_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<CostPoint> all_;
};

std::span<const CostPoint> table_cell(const ChainTables::Entry& entry, std::size_t before, std::size_t exit) {
  return entry.elimination->result().cell(before * strategies_at_exit(entry) + exit);
}

}  // namespace

ChainFronts first_fronts(const ChainTables::Entry& entry, const ChoiceLimits& limits) {
  return next_fronts(ChainFronts(strategies_before(entry), {CostPoint{}}), entry, limits);
}

ChainFronts next_fronts(const ChainFronts& before, const ChainTables::Entry& entry,
                        const ChoiceLimits& limits) {
  ChainFronts fronts(strategies_at_exit(entry));
  BucketedPoints points(limits);
  for (std::size_t x = 0; x < fronts.size(); ++x) {
    for (std::size_t e = 0; e < before.size(); ++e)
      for (const CostPoint& step : table_cell(entry, e, x)) points.add_sums(step, before[e]);
    fronts[x] = points.take();
  }
  return fronts;
}

std::vector<CostPoint> total_front(const ChainFronts& fronts, const ChoiceLimits& limits) {
  std::vector<CostPoint> points;
  for (const std::vector<CostPoint>& front : fronts) points.insert(points.end(), front.begin(), front.end());
  keep_front(points, limits);
  return points;
}

namespace {

class ChainTrace {
 public:
  ChainTrace(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments, const ChainEntries& entries,
             const std::vector<ChainFronts>& fronts)
      : graph_(graph), segments_(segments), entries_(entries), fronts_(fronts) {}

  // From the end, each point found again among sums of the ones before it.
  Choice of(CostPoint point) const {
    std::vector<std::uint16_t> strategies(graph_.nodes.size(), 0);
    std::size_t exit = 0;
    while (!contains(fronts_.back()[exit], point)) ++exit;
    for (std::size_t s = entries_.size(); s-- > 0;) {
      const Link link = link_to(s, exit, point);
      std::vector<std::uint16_t> local(entries_[s]->graph.nodes.size(), 0);
      local[0] = static_cast<std::uint16_t>(link.before);
      local[entries_[s]->exit] = static_cast<std::uint16_t>(exit);
      entries_[s]->elimination->trace(link.step, local);
      for (std::size_t n = 0; n < segments_[s].nodes.size(); ++n)
        strategies[segments_[s].nodes[n]] = local[n + 1];
      exit = link.before;
      point = link.so_far;
    }
    return evaluate_choice(graph_, std::move(strategies));
  }

 private:
  struct Link {
    std::size_t before = 0;
    CostPoint so_far, step;
  };
  static bool contains(const std::vector<CostPoint>& points, CostPoint point) {
    return std::find(points.begin(), points.end(), point) != points.end();
  }
  Link link_to(std::size_t s, std::size_t exit, CostPoint point) const {
    const std::vector<CostPoint> start{CostPoint{}};
    for (std::size_t e = 0; e < strategies_before(*entries_[s]); ++e)
      for (const CostPoint& step : table_cell(*entries_[s], e, exit))
        for (const CostPoint& so_far : s == 0 ? start : fronts_[s - 1][e])
          if (plus(so_far, step) == point) return {e, so_far, step};
    assert(false && "every point of a front is a sum");
    return {};
  }
  const ChoiceGraph& graph_;
  const std::vector<SegmentNodes>& segments_;
  const ChainEntries& entries_;
  const std::vector<ChainFronts>& fronts_;
};

}  // namespace

ChainEntries entries_along(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments,
                           ChainTables& tables) {
  ChainEntries entries;
  for (std::size_t s = 0; s < segments.size(); ++s) entries.push_back(&tables.of(graph, segments, s));
  return entries;
}

std::vector<Choice> choose_along(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments,
                                 const ChainEntries& entries, const ChoiceLimits& limits) {
  std::vector<ChainFronts> fronts;
  for (std::size_t s = 0; s < segments.size(); ++s)
    fronts.push_back(s == 0 ? first_fronts(*entries[0], limits)
                            : next_fronts(fronts.back(), *entries[s], limits));
  const ChainTrace trace(graph, segments, entries, fronts);
  const std::vector<CostPoint> front = total_front(fronts.back(), limits);
  std::vector<Choice> choices;
  for (const CostPoint& point : cheapest_points(front, limits)) choices.push_back(trace.of(point));
  return choices;
}

double least_along(const ChainEntries& entries, const ChoiceLimits& limits) {
  ChainFronts fronts = first_fronts(*entries[0], limits);
  for (std::size_t s = 1; s < entries.size(); ++s) fronts = next_fronts(fronts, *entries[s], limits);
  const std::vector<CostPoint> front = total_front(fronts, limits);
  return front.empty() ? forbidden_cost : front.back().cost;
}

}  // namespace simrun
