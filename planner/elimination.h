#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/choice_graph.h"
#include "planner/pareto_front.h"

namespace simrun {

// Fronts of cost and memory by the strategies of a few nodes: what the rest of a graph costs at best.
struct ChoiceTable {
  std::vector<std::size_t> scope;     // nodes, ascending
  std::vector<std::size_t> extents;   // their numbers of strategies
  std::vector<std::size_t> begin{0};  // of a cell's points, and their end; row-major, the last node fastest
  std::vector<CostPoint> points;
  std::span<const CostPoint> cell(std::size_t index) const {
    return {points.data() + begin[index], begin[index + 1] - begin[index]};
  }
};

// Variable elimination (bucket elimination: Dechter 1999, "Bucket elimination: a unifying framework for
// reasoning"), exact: nodes are minimised away one by one, next the one whose table has fewest entries. Cells
// hold the front of (cost, memory), or the cheapest point alone where memory does not count. Time and memory
// grow with the largest table, which for chains of operators is that of three neighbours.
class Elimination {
 public:
  // `kept` nodes, ascending, are not minimised away: they index the result. Throws std::length_error, naming
  // the table's size and the limit, before a table of more than limits.entries is made;
  // std::invalid_argument where costs are negative or not as many as their nodes' strategies.
  Elimination(const ChoiceGraph& graph, const std::vector<std::size_t>& kept, const ChoiceLimits& limits);

  // Over `kept`.
  const ChoiceTable& result() const { return tables_.back(); }

  // Fills in the strategies of all nodes, given those of the kept ones. REQUIRES: the point is in result()'s
  // cell of these.
  void trace(CostPoint point, std::vector<std::uint16_t>& strategies) const;

 private:
  struct Step {
    std::size_t node = 0;
    std::vector<std::size_t> from;  // tables that it joins
    std::size_t to = 0;
  };
  struct Cursor;
  void add_graph(const ChoiceGraph& graph);
  void settle_entries(std::size_t node);
  std::size_t cheapest_node(const std::vector<bool>& is_open) const;
  double entries_without(std::size_t node) const;
  std::vector<std::size_t> scope_of(const std::vector<std::size_t>& tables) const;
  void eliminate(std::size_t node);
  void join_rest(const std::vector<std::size_t>& kept);
  ChoiceTable joined(const Step& step, const std::vector<std::size_t>& scope) const;
  void trace_step(const Step& step, std::vector<std::uint16_t>& strategies,
                  std::vector<CostPoint>& targets) const;

  ChoiceLimits limits_;
  std::vector<std::size_t> domains_;  // strategies by node
  std::vector<ChoiceTable> tables_;
  std::vector<bool> is_live_;                        // by table: not joined yet
  std::vector<std::vector<std::size_t>> tables_of_;  // live ones by node
  std::vector<double> entries_;                      // by node: of the table that minimises it away
  std::vector<Step> steps_;
};

// The choices of a whole graph that no other beats in both cost and memory, ascending in memory; the cheapest
// alone unless limits.front. Empty if nothing keeps the limit.
std::vector<Choice> eliminate_all(const ChoiceGraph& graph, const ChoiceLimits& limits);

// Cost and memory of given strategies.
Choice evaluate_choice(const ChoiceGraph& graph, std::vector<std::uint16_t> strategies);

}  // namespace simrun
