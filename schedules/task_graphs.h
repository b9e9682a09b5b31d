#pragma once

#include "configs/layout_config.h"
#include "models/graph.h"

namespace simrun {

// Whale's task graphs (Jia et al. 2022, arXiv 2011.09208, section 3) as choices of dimensions. `replicate: n`
// splits the batch over n neighbouring ranks and nothing else; `split: n` splits over them what a layer
// divides among tensor-parallel ranks (heads, feed-forward, vocabulary, classes) and leaves the batch whole.
// On the other ranks of a stage a task graph is repeated. The bridges between two task graphs are conversions
// like any others; none is needed where both split a dimension alike.
LayoutConfig with_task_graphs(LayoutConfig layout, const Graph& graph);

}  // namespace simrun
