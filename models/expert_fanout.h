#pragma once

#include <cstdint>

#include "configs/moe_config.h"

namespace simrun {

// To how many of `destinations` (nodes, or GPUs) a token goes on average, if each holds as many experts, one
// behind the other, and every choice of experts is as likely as any other. Of E experts k are chosen without
// putting back; of those in `experts.groups` groups, all from `experts.topk_groups` of them (DeepSeek-V3,
// arXiv 2412.19437, section 2.1.2). With d destinations of E / d experts each and no groups
//
//   d (1 - C(E - E / d, k) / C(E, k))
//
// (hypergeometric). With groups the number of a destination's groups that may be chosen from is itself
// hypergeometric. What a router has learnt is neither: a token whose experts lie together goes to fewer, and
// at most min(k, d) it can be. DeepSeek-V3 (section 3.2.2) states the bound, 4 nodes, where this is 3.6.
//
// REQUIRES: destinations divide the experts.
double expected_destinations(const ExpertConfig& experts, std::int64_t destinations);

// The same of nodes, at most `node_limit` (0: no limit). Without groups the limit itself makes them: the
// experts of a token are then on node_limit nodes, chosen first.
double expected_nodes(const ExpertConfig& experts, std::int64_t node_limit, std::int64_t nodes);

}  // namespace simrun
