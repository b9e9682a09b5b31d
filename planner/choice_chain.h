#pragma once

#include <vector>

#include "planner/choice_graph.h"
#include "planner/elimination.h"

namespace simrun {

// Graphs whose segments (ChoiceNode::segment) form a chain, as layers do: the next one is joined to a single
// node of the one before, its exit. A segment is minimised once to a table [strategy of the exit before][own
// exit] and shared by all that equal it; what is left is a dynamic program over the chain (the reference's
// measurement: 24 layers of a GPT with a memory limit in 0.05 s, where an integer program takes a minute).
//
// Other edges between segments are paid for by trying every strategy of the nodes they start at (tied
// embeddings, an encoder's output); where these have more than 4,096 combinations the graph is minimised as a
// whole.

// As eliminate_all(), which it equals where nothing is thinned.
std::vector<Choice> choose_strategies(const ChoiceGraph& graph, const ChoiceLimits& limits);

}  // namespace simrun
