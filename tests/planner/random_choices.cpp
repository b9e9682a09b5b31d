#include "tests/planner/random_choices.h"

namespace simrun {
namespace {

double random_number(std::mt19937& random, unsigned below) { return static_cast<double>(random() % below); }

}  // namespace

ChoiceEdge random_edge(const ChoiceGraph& graph, std::size_t from, std::size_t to, double forbidden_share,
                       std::mt19937& random) {
  std::vector<double> costs;
  for (std::size_t i = graph.nodes[from].cost.size() * graph.nodes[to].cost.size(); i > 0; --i)
    costs.push_back(random_number(random, 1000) < 1000 * forbidden_share ? forbidden_cost
                                                                         : random_number(random, 20));
  return {from, to, std::move(costs)};
}

ChoiceGraph random_choices(const RandomChoices& shape, std::mt19937& random) {
  ChoiceGraph graph;
  for (std::size_t v = 0; v < shape.nodes; ++v) {
    ChoiceNode node;
    for (std::size_t s = 1 + random() % shape.most_strategies; s > 0; --s) {
      node.cost.push_back(random_number(random, 20));
      node.memory.push_back(random_number(random, 20));
    }
    graph.nodes.push_back(node);
  }
  for (std::size_t e = 0; e < shape.edges; ++e) {
    const std::size_t from = random() % shape.nodes, to = random() % shape.nodes;
    if (from != to) graph.edges.push_back(random_edge(graph, from, to, shape.forbidden_share, random));
  }
  return graph;
}

ChoiceGraph random_layers(const RandomChoices& shape, std::size_t layers, std::mt19937& random) {
  const ChoiceGraph layer = random_choices(shape, random);
  const ChoiceEdge between = random_edge(layer, layer.nodes.size() - 1, 0, shape.forbidden_share, random);
  ChoiceGraph graph;
  for (std::size_t l = 0; l < layers; ++l) {
    const std::size_t first = graph.nodes.size();
    for (ChoiceNode node : layer.nodes) {
      node.segment = static_cast<std::int32_t>(l);
      graph.nodes.push_back(std::move(node));
    }
    for (const ChoiceEdge& edge : layer.edges)
      graph.edges.push_back({first + edge.from, first + edge.to, edge.cost});
    if (l > 0) graph.edges.push_back({first - 1, first, between.cost});
  }
  return graph;
}

}  // namespace simrun
