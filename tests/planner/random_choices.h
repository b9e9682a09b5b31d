#pragma once

#include <random>

#include "planner/choice_graph.h"

namespace simrun {

struct RandomChoices {
  std::size_t nodes = 4;
  std::size_t most_strategies = 3;
  std::size_t edges = 4;  // some of which may join the same nodes
  double forbidden_share = 0;
};

// Costs and memories are small whole numbers: sums are exact, and equal ones are frequent.
ChoiceGraph random_choices(const RandomChoices& shape, std::mt19937& random);
// Each layer the same graph, its first node joined to the last of the layer before.
ChoiceGraph random_layers(const RandomChoices& shape, std::size_t layers, std::mt19937& random);
ChoiceEdge random_edge(const ChoiceGraph& graph, std::size_t from, std::size_t to, double forbidden_share,
                       std::mt19937& random);

}  // namespace simrun
