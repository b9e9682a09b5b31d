#include "planner/elimination.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace simrun {

// The cell of one table as the strategies of all nodes change.
struct Elimination::Cursor {
  const ChoiceTable* table = nullptr;
  std::vector<std::size_t> strides;  // by node of the table's scope
  explicit Cursor(const ChoiceTable& of) : table(&of), strides(of.scope.size(), 1) {
    for (std::size_t n = strides.size(); n-- > 1;) strides[n - 1] = strides[n] * of.extents[n];
  }
  std::size_t index(const std::vector<std::uint16_t>& strategies) const {
    std::size_t at = 0;
    for (std::size_t n = 0; n < strides.size(); ++n) at += strides[n] * strategies[table->scope[n]];
    return at;
  }
  std::span<const CostPoint> cell(const std::vector<std::uint16_t>& strategies) const {
    return table->cell(index(strategies));
  }
};

namespace {

void append_cell(ChoiceTable& table, const std::vector<CostPoint>& points) {
  table.points.insert(table.points.end(), points.begin(), points.end());
  table.begin.push_back(table.points.size());
}

void append_single(ChoiceTable& table, CostPoint point) {
  if (std::isfinite(point.cost)) table.points.push_back(point);
  table.begin.push_back(table.points.size());
}

void require_costs(std::span<const double> costs) {
  for (const double cost : costs)
    if (!(cost >= 0)) throw std::invalid_argument(fmt::format("a cost of {} is not one", cost));
}

void require_shapes(const ChoiceGraph& graph) {
  for (const ChoiceNode& node : graph.nodes) require_costs(node.cost);
  for (const ChoiceEdge& edge : graph.edges) require_costs({edge.cost.begin(), edge.cost.end()});
  for (std::size_t v = 0; v < graph.nodes.size(); ++v)
    if (graph.nodes[v].cost.size() != graph.nodes[v].memory.size() || graph.nodes[v].cost.empty())
      throw std::invalid_argument(fmt::format("node {} has {} costs and {} memories", v,
                                              graph.nodes[v].cost.size(), graph.nodes[v].memory.size()));
  for (const ChoiceEdge& edge : graph.edges) {
    const std::size_t expected = graph.nodes.at(edge.from).cost.size() * graph.nodes.at(edge.to).cost.size();
    if (edge.from == edge.to || edge.cost.size() != expected)
      throw std::invalid_argument(fmt::format("the edge from {} to {} has {} costs, not {}", edge.from,
                                              edge.to, edge.cost.size(), expected));
  }
}

// Row-major over ascending nodes, whichever way the edge points.
ChoiceTable table_of(const ChoiceEdge& edge, std::size_t from, std::size_t to) {
  ChoiceTable table;
  table.scope = {std::min(edge.from, edge.to), std::max(edge.from, edge.to)};
  const bool turned = edge.from > edge.to;
  table.extents = turned ? std::vector{to, from} : std::vector{from, to};
  for (std::size_t a = 0; a < table.extents[0]; ++a)
    for (std::size_t b = 0; b < table.extents[1]; ++b)
      append_single(table, {edge.cost[turned ? b * to + a : a * to + b], 0});
  return table;
}

// All strategies of some nodes, the last fastest.
bool advance(const std::vector<std::size_t>& scope, const std::vector<std::size_t>& domains,
             std::vector<std::uint16_t>& strategies) {
  for (std::size_t n = scope.size(); n-- > 0;) {
    if (++strategies[scope[n]] < domains[scope[n]]) return true;
    strategies[scope[n]] = 0;
  }
  return false;
}

// Sums of one point of each list. `all`: room for them, used again and again.
void add_points(std::vector<CostPoint>& sums, std::span<const CostPoint> list, const ChoiceLimits& limits,
                std::vector<CostPoint>& all) {
  if (list.size() == 1) {
    for (CostPoint& sum : sums) {
      sum.cost += list[0].cost;
      sum.memory += list[0].memory;
    }
    return;
  }
  all.clear();
  for (const CostPoint& sum : sums)
    for (const CostPoint& point : list) all.push_back({sum.cost + point.cost, sum.memory + point.memory});
  std::swap(sums, all);
  keep_front(sums, limits);
}

// The summands of a sum that add_points made, found again by making it again: additions in the same order
// give the same bits.
bool find_summands(std::span<const std::span<const CostPoint>> lists, CostPoint sum, CostPoint wanted,
                   std::vector<CostPoint>& summands) {
  if (lists.empty()) return sum == wanted;
  if (sum.cost > wanted.cost || sum.memory > wanted.memory) return false;
  for (const CostPoint& point : lists.front()) {
    summands.push_back(point);
    if (find_summands(lists.subspan(1), {sum.cost + point.cost, sum.memory + point.memory}, wanted, summands))
      return true;
    summands.pop_back();
  }
  return false;
}

}  // namespace

Elimination::Elimination(const ChoiceGraph& graph, const std::vector<std::size_t>& kept,
                         const ChoiceLimits& limits)
    : limits_(limits) {
  require_shapes(graph);
  add_graph(graph);
  std::vector<bool> is_open(graph.nodes.size(), true);
  for (const std::size_t node : kept) is_open[node] = false;
  for (std::size_t left = graph.nodes.size() - kept.size(); left > 0; --left) {
    const std::size_t node = cheapest_node(is_open);
    is_open[node] = false;
    eliminate(node);
  }
  join_rest(kept);
}

void Elimination::add_graph(const ChoiceGraph& graph) {
  for (const ChoiceNode& node : graph.nodes) domains_.push_back(node.cost.size());
  for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
    ChoiceTable table;
    table.scope = {v};
    table.extents = {domains_[v]};
    for (std::size_t s = 0; s < domains_[v]; ++s)
      append_single(table, {graph.nodes[v].cost[s], graph.nodes[v].memory[s]});
    tables_.push_back(std::move(table));
  }
  for (const ChoiceEdge& edge : graph.edges)
    tables_.push_back(table_of(edge, domains_[edge.from], domains_[edge.to]));
  is_live_.assign(tables_.size(), true);
  tables_of_.resize(domains_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t)
    for (const std::size_t node : tables_[t].scope) tables_of_[node].push_back(t);
  entries_.resize(domains_.size());
  for (std::size_t v = 0; v < domains_.size(); ++v) settle_entries(v);
}

std::vector<std::size_t> Elimination::scope_of(const std::vector<std::size_t>& tables) const {
  std::vector<std::size_t> scope;
  for (const std::size_t t : tables)
    scope.insert(scope.end(), tables_[t].scope.begin(), tables_[t].scope.end());
  std::sort(scope.begin(), scope.end());
  scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
  return scope;
}

double Elimination::entries_without(std::size_t node) const {
  double entries = 1;
  for (const std::size_t n : scope_of(tables_of_[node])) entries *= static_cast<double>(domains_[n]);
  return entries;
}

void Elimination::settle_entries(std::size_t node) { entries_[node] = entries_without(node); }

std::size_t Elimination::cheapest_node(const std::vector<bool>& is_open) const {
  std::size_t best = is_open.size();
  double least = 0;
  for (std::size_t v = 0; v < is_open.size(); ++v) {
    if (!is_open[v]) continue;
    if (best < is_open.size() && entries_[v] >= least) continue;
    best = v;
    least = entries_[v];
  }
  return best;
}

ChoiceTable Elimination::joined(const Step& step, const std::vector<std::size_t>& scope) const {
  std::vector<Cursor> cursors;
  cursors.reserve(step.from.size());
  for (const std::size_t t : step.from) cursors.emplace_back(tables_[t]);
  const bool minimises = step.node < domains_.size();
  const std::size_t strategies_of_node = minimises ? domains_[step.node] : 1;
  ChoiceTable table;
  table.scope = scope;
  for (const std::size_t n : scope) table.extents.push_back(domains_[n]);
  std::vector<std::uint16_t> strategies(domains_.size() + 1, 0);
  std::vector<CostPoint> cell, sums, room;
  do {
    cell.clear();
    for (std::size_t s = 0; s < strategies_of_node; ++s) {
      strategies[step.node] = static_cast<std::uint16_t>(s);
      sums.assign(1, CostPoint{});
      for (const Cursor& cursor : cursors) {
        const std::span<const CostPoint> list = cursor.cell(strategies);
        if (list.empty()) sums.clear();
        if (sums.empty()) break;
        add_points(sums, list, limits_, room);
      }
      if (!sums.empty()) add_front(cell, sums, limits_, room);
    }
    keep_front(cell, limits_);
    append_cell(table, cell);
  } while (advance(scope, domains_, strategies));
  return table;
}

void Elimination::eliminate(std::size_t node) {
  Step step{node, tables_of_[node], tables_.size()};
  std::vector<std::size_t> scope = scope_of(step.from);
  const double entries = entries_[node];
  if (entries > limits_.entries)
    throw std::length_error(fmt::format(
        "the exact minimum needs a table of {:.3g} entries over {} decisions, more than {:.3g}; fewer mesh "
        "axes or fewer dimensions to split make it smaller",
        entries, scope.size(), limits_.entries));
  std::erase(scope, node);
  tables_.push_back(joined(step, scope));
  for (const std::size_t t : step.from) is_live_[t] = false;
  is_live_.push_back(true);
  for (const std::size_t n : scope) {
    std::erase_if(tables_of_[n], [&](std::size_t t) { return !is_live_[t]; });
    tables_of_[n].push_back(step.to);
    settle_entries(n);
  }
  steps_.push_back(std::move(step));
}

// What is left has kept nodes only.
void Elimination::join_rest(const std::vector<std::size_t>& kept) {
  Step step{domains_.size(), {}, tables_.size()};
  double entries = 1;
  for (const std::size_t n : kept) entries *= static_cast<double>(domains_[n]);
  if (entries > limits_.entries)
    throw std::length_error(
        fmt::format("a table of {:.3g} entries is more than {:.3g}", entries, limits_.entries));
  for (std::size_t t = 0; t < tables_.size(); ++t)
    if (is_live_[t]) step.from.push_back(t);
  tables_.push_back(joined(step, kept));
  steps_.push_back(std::move(step));
}

void Elimination::trace_step(const Step& step, std::vector<std::uint16_t>& strategies,
                             std::vector<CostPoint>& targets) const {
  const bool minimises = step.node < domains_.size();
  const std::size_t strategies_of_node = minimises ? domains_[step.node] : 1;
  for (std::size_t s = 0; s < strategies_of_node; ++s) {
    strategies[step.node] = static_cast<std::uint16_t>(s);
    std::vector<std::span<const CostPoint>> lists;
    for (const std::size_t t : step.from) lists.push_back(Cursor(tables_[t]).cell(strategies));
    std::vector<CostPoint> summands;
    if (!find_summands(lists, {}, targets[step.to], summands)) continue;
    for (std::size_t i = 0; i < summands.size(); ++i) targets[step.from[i]] = summands[i];
    return;
  }
  assert(false && "every point of a table is a sum of points of the tables that it joins");
}

void Elimination::trace(CostPoint point, std::vector<std::uint16_t>& strategies) const {
  strategies.resize(domains_.size() + 1, 0);
  std::vector<CostPoint> targets(tables_.size());
  targets[steps_.back().to] = point;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) trace_step(*step, strategies, targets);
  strategies.resize(domains_.size());
}

Choice evaluate_choice(const ChoiceGraph& graph, std::vector<std::uint16_t> strategies) {
  Choice choice;
  for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
    choice.cost += graph.nodes[v].cost[strategies[v]];
    choice.memory += graph.nodes[v].memory[strategies[v]];
  }
  for (const ChoiceEdge& edge : graph.edges)
    choice.cost += edge.cost[strategies[edge.from] * graph.nodes[edge.to].cost.size() + strategies[edge.to]];
  choice.strategies = std::move(strategies);
  return choice;
}

std::vector<Choice> eliminate_all(const ChoiceGraph& graph, const ChoiceLimits& limits) {
  const Elimination elimination(graph, {}, limits);
  std::vector<Choice> choices;
  for (const CostPoint& point : cheapest_points(elimination.result().cell(0), limits)) {
    std::vector<std::uint16_t> strategies;
    elimination.trace(point, strategies);
    choices.push_back(evaluate_choice(graph, std::move(strategies)));
  }
  return choices;
}

}  // namespace simrun
