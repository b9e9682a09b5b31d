#pragma once

#include <cstdint>

#include "configs/fabric_config.h"

namespace simrun {

// A NIC: `number` over all nodes, `place` among those that a leaf's destinations are told apart by (its node
// where each rail has its own leaves).
struct NicPlace {
  std::int64_t number = 0, node = 0, rail = 0, place = 0;
};

// How many of each there are to choose from.
struct PathCount {
  std::int64_t planes = 1, spines = 1, cores_of_spine = 1;
};

struct ChosenPath {
  std::int64_t plane = 0, spine = 0, core = 0;
};

// The way of all flows between two NICs. Chosen by hash both directions take the same.
ChosenPath choose_path(PathChoice routing, PathCount count, const NicPlace& from, const NicPlace& to);

}  // namespace simrun
