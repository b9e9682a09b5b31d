#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "sim/equitable_partition.h"

namespace simrun {

namespace {

using Classes = std::vector<Index>;
using Edges = std::vector<GraphEdge>;

// Numbered in the order of their first vertices.
Classes in_order(const Classes& classes) {
  std::map<Index, Index> numbers;
  Classes result;
  for (const Index of : classes)
    result.push_back(numbers.try_emplace(of, static_cast<Index>(numbers.size())).first->second);
  return result;
}

Classes classes_of(const std::vector<std::uint64_t>& colours, const Edges& edges) {
  return in_order(equitable_classes(
      colours, [&](const SeeEdge& see) { std::for_each(edges.begin(), edges.end(), see); }));
}

// As slowly as can be: sets apart what has other edges, until nothing does.
Classes obvious_classes(const std::vector<std::uint64_t>& colours, const Edges& edges) {
  Classes classes(colours.begin(), colours.end());
  for (std::size_t round = 0; round <= colours.size(); ++round) {
    std::vector<Classes> seen(colours.size());
    for (const auto& [a, b] : edges) {
      seen[a].push_back(classes[b]);
      seen[b].push_back(classes[a]);
    }
    std::map<std::pair<Index, Classes>, Index> numbers;
    Classes next;
    for (std::size_t v = 0; v < colours.size(); ++v) {
      std::sort(seen[v].begin(), seen[v].end());
      next.push_back(
          numbers.try_emplace({classes[v], seen[v]}, static_cast<Index>(numbers.size())).first->second);
    }
    classes = next;
  }
  return in_order(classes);
}

}  // namespace

TEST_CASE("vertices of a ring are alike, those of a chain by their distance from its ends") {
  const std::vector<std::uint64_t> same(6, 7);
  Edges chain{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}};
  CHECK(classes_of(same, chain) == Classes{0, 1, 2, 2, 1, 0});
  chain.emplace_back(5, 0);
  CHECK(classes_of(same, chain) == Classes(6, 0));
}

TEST_CASE("a colour, an edge and a double edge set apart") {
  CHECK(classes_of({1, 1, 2, 1}, {}) == Classes{0, 0, 1, 0});
  CHECK(classes_of({1, 1, 1, 1}, {{0, 1}}) == Classes{0, 0, 1, 1});
  CHECK(classes_of({1, 1, 1, 1}, {{0, 1}, {2, 3}, {3, 2}}) == Classes{0, 0, 1, 1});
}

TEST_CASE("random graphs: the classes of an obvious refinement") {
  std::mt19937 random(1);
  for (int graph = 0; graph < 300; ++graph) {
    const std::size_t vertices = 1 + random() % 24;
    std::vector<std::uint64_t> colours;
    for (std::size_t v = 0; v < vertices; ++v) colours.push_back(random() % 2);
    Edges edges;
    for (std::size_t e = random() % (2 * vertices); e > 0; --e)
      edges.emplace_back(random() % vertices, random() % vertices);
    CAPTURE(graph);
    CHECK(classes_of(colours, edges) == obvious_classes(colours, edges));
  }
}

}  // namespace simrun
