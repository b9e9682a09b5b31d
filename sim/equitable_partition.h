#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "schedules/timeline.h"

namespace simrun {

// The coarsest classes of a graph's vertices, by vertex, such that those of one class have equal colours and
// equally many edges to every class. Numbers count from 0, in no meaning order, but the same on every
// machine. An edge joins two vertices. O(edges x log vertices) time, 8 bytes for an edge and 28 for a vertex;
// fewer than 2^31 edges.
//
// Sources: Cardon and Crochemore 1982; Paige and Tarjan 1987 (of a class that falls apart all but the largest
// part are looked at again).
using GraphEdge = std::pair<Index, Index>;
using SeeEdge = std::function<void(GraphEdge)>;
// `visit` shows all edges, and is called twice.
std::vector<Index> equitable_classes(std::vector<std::uint64_t> colours,
                                     const std::function<void(const SeeEdge&)>& visit);

}  // namespace simrun
