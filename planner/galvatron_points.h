#pragma once

#include <vector>

#include "planner/galvatron_search.h"

namespace simrun {

// Every point of Galvatron's search: strategies mixed, and all layers alike.
std::vector<GalvatronPoint> mixed_points(const Job& job, const GalvatronOptions& options);
std::vector<GalvatronPoint> uniform_points(const Job& job, const GalvatronOptions& options);

// Of these the ones that differ from `from` in one choice: the next larger or smaller microbatch; stages half
// or twice as many, with as large microbatches or as large ones per rank; another split of the ends, or of
// all layers; another ZeRO stage; strategies mixed or alike, recomputed or not.
std::vector<GalvatronPoint> neighbours_of(const Job& job, const GalvatronOptions& options,
                                          const GalvatronPoint& from);

}  // namespace simrun
