#include "planner/choice_chain.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "planner/chain_tables.h"

namespace simrun {
namespace {

constexpr double most_combinations = 4096;

// Nodes that an edge leaves for another segment than the next, or beside the next one's exit.
std::vector<std::size_t> hubs_of(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments) {
  std::vector<std::size_t> hubs;
  for (const ChoiceEdge& edge : graph.edges) {
    const std::size_t first = std::min(edge.from, edge.to), last = std::max(edge.from, edge.to);
    const std::size_t a = segment_index(segments, first), b = segment_index(segments, last);
    if (a == b || (a + 1 == b && segments[a].exit == first)) continue;
    if (std::find(hubs.begin(), hubs.end(), first) == hubs.end()) hubs.push_back(first);
  }
  return hubs;
}

// The graph with the strategies of hubs given: their edges to others are costs of those. Segments that no hub
// touches stay as they are.
class HubbedGraph {
 public:
  HubbedGraph(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments,
              const std::vector<std::size_t>& hubs)
      : graph_(graph), segments_(segments), hubs_(hubs), touched_(segments.size(), false) {
    given_.nodes = graph.nodes;
    for (const std::size_t hub : hubs) touched_[segment_index(segments, hub)] = true;
    for (const ChoiceEdge& edge : graph.edges) {
      if (hub_of(edge.from) == hubs.size() && hub_of(edge.to) == hubs.size()) {
        given_.edges.push_back(edge);
        continue;
      }
      of_hubs_.push_back(&edge);
      for (const std::size_t node : {edge.from, edge.to}) touched_[segment_index(segments, node)] = true;
    }
    for (std::size_t s = 1; s < segments.size(); ++s)  // its table is over the hub's strategies
      if (std::count(hubs.begin(), hubs.end(), segments[s - 1].exit) > 0) touched_[s] = true;
  }

  const ChoiceGraph& graph() const { return given_; }

  // Tables of its segments, those that no hub touches from before.
  const ChainEntries& condition(const std::vector<std::uint16_t>& chosen, ChainTables& tables) {
    given_.nodes = graph_.nodes;
    for (std::size_t h = 0; h < hubs_.size(); ++h)
      for (std::size_t s = 0; s < given_.nodes[hubs_[h]].cost.size(); ++s)
        if (s != chosen[h]) given_.nodes[hubs_[h]].cost[s] = forbidden_cost;
    for (const ChoiceEdge* edge : of_hubs_) add_edge(*edge, chosen);
    entries_.resize(segments_.size(), nullptr);
    for (std::size_t s = 0; s < segments_.size(); ++s)
      if (touched_[s] || entries_[s] == nullptr) entries_[s] = &tables.of(given_, segments_, s);
    return entries_;
  }

 private:
  std::size_t hub_of(std::size_t node) const {
    return static_cast<std::size_t>(std::find(hubs_.begin(), hubs_.end(), node) - hubs_.begin());
  }
  void add_edge(const ChoiceEdge& edge, const std::vector<std::uint16_t>& chosen) {
    const std::size_t from = hub_of(edge.from), to = hub_of(edge.to);
    const std::size_t columns = graph_.nodes[edge.to].cost.size();
    if (from < hubs_.size())
      for (std::size_t s = 0; s < columns; ++s)
        given_.nodes[edge.to].cost[s] += edge.cost[chosen[from] * columns + s];
    else
      for (std::size_t s = 0; s < graph_.nodes[edge.from].cost.size(); ++s)
        given_.nodes[edge.from].cost[s] += edge.cost[s * columns + chosen[to]];
  }

  const ChoiceGraph& graph_;
  const std::vector<SegmentNodes>& segments_;
  const std::vector<std::size_t>& hubs_;
  std::vector<bool> touched_;  // by segment
  ChoiceGraph given_;
  std::vector<const ChoiceEdge*> of_hubs_;
  ChainEntries entries_;
};

std::vector<Choice> front_of(std::vector<Choice> choices, const ChoiceLimits& limits) {
  std::vector<CostPoint> points;
  points.reserve(choices.size());
  for (const Choice& choice : choices) points.push_back({choice.cost, choice.memory});
  keep_front(points, limits);
  std::vector<Choice> kept;
  kept.reserve(points.size());
  for (const CostPoint& point : points)
    kept.push_back(*std::find_if(choices.begin(), choices.end(), [&](const Choice& choice) {
      return choice.cost == point.cost && choice.memory == point.memory;
    }));
  return kept;
}

// Every combination of hubs' strategies. Where only the cheapest choice is wanted, those come first that are
// cheapest without a limit, and none is tried that is no better without than what is known with it.
class HubSearch {
 public:
  HubSearch(const ChoiceGraph& graph, const std::vector<SegmentNodes>& segments,
            const std::vector<std::size_t>& hubs, const ChoiceLimits& limits)
      : graph_(graph), segments_(segments), hubs_(hubs), limits_(limits) {}

  std::vector<Choice> run() {
    list_combinations();
    ChainTables tables(limits_);
    HubbedGraph hubbed(graph_, segments_, hubs_);
    const bool cheapest_only = limits_.choices == 1 || !limits_.front;
    std::vector<Choice> all;
    double best = forbidden_cost;
    for (const Combination& combination : combinations_) {
      if (cheapest_only && combination.least >= best) break;
      const ChainEntries& entries = hubbed.condition(combination.chosen, tables);
      for (Choice& choice : choose_along(hubbed.graph(), segments_, entries, limits_)) {
        all.push_back(evaluate_choice(graph_, std::move(choice.strategies)));
        best = std::min(best, all.back().cost);
      }
    }
    std::vector<Choice> front = front_of(std::move(all), limits_);
    if (front.size() > limits_.choices)
      front.erase(front.begin(), front.end() - static_cast<std::ptrdiff_t>(limits_.choices));
    return front;
  }

 private:
  struct Combination {
    std::vector<std::uint16_t> chosen;
    double least = 0;  // cost without a limit
  };

  void list_combinations() {
    const ChoiceLimits unlimited{.entries = limits_.entries};
    ChainTables tables(unlimited);
    HubbedGraph hubbed(graph_, segments_, hubs_);
    std::vector<std::uint16_t> chosen(hubs_.size(), 0);
    for (bool more = true; more;) {
      const double least = least_along(hubbed.condition(chosen, tables), unlimited);
      if (least < forbidden_cost) combinations_.push_back({chosen, least});
      more = false;
      for (std::size_t h = hubs_.size(); h-- > 0 && !more;) {
        more = ++chosen[h] < graph_.nodes[hubs_[h]].cost.size();
        if (!more) chosen[h] = 0;
      }
    }
    std::stable_sort(combinations_.begin(), combinations_.end(),
                     [](const Combination& a, const Combination& b) { return a.least < b.least; });
  }

  const ChoiceGraph& graph_;
  const std::vector<SegmentNodes>& segments_;
  const std::vector<std::size_t>& hubs_;
  const ChoiceLimits& limits_;
  std::vector<Combination> combinations_;
};

}  // namespace

std::vector<Choice> choose_strategies(const ChoiceGraph& graph, const ChoiceLimits& limits) {
  const std::vector<SegmentNodes> segments = segments_of(graph);
  if (segments.size() < 3) return eliminate_all(graph, limits);
  const std::vector<std::size_t> hubs = hubs_of(graph, segments);
  double combinations = 1;
  for (const std::size_t hub : hubs) combinations *= static_cast<double>(graph.nodes[hub].cost.size());
  if (combinations > most_combinations) return eliminate_all(graph, limits);
  if (!hubs.empty()) return HubSearch(graph, segments, hubs, limits).run();
  ChainTables tables(limits);
  return choose_along(graph, segments, entries_along(graph, segments, tables), limits);
}

}  // namespace simrun
