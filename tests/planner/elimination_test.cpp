#include "planner/elimination.h"

#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>

#include "planner/choice_chain.h"
#include "tests/planner/random_choices.h"

namespace simrun {
namespace {

constexpr double none = forbidden_cost;

// Every combination of strategies.
std::vector<Choice> all_choices(const ChoiceGraph& graph) {
  std::vector<Choice> all;
  std::vector<std::uint16_t> strategies(graph.nodes.size(), 0);
  for (bool more = true; more;) {
    all.push_back(evaluate_choice(graph, strategies));
    more = false;
    for (std::size_t v = 0; v < strategies.size() && !more; ++v) {
      more = ++strategies[v] < graph.nodes[v].cost.size();
      if (!more) strategies[v] = 0;
    }
  }
  return all;
}

std::vector<CostPoint> front_by_hand(const ChoiceGraph& graph, double memory) {
  std::vector<CostPoint> front;
  const std::vector<Choice> all = all_choices(graph);
  for (const Choice& choice : all) {
    if (choice.memory > memory || choice.cost == none) continue;
    bool beaten = false;
    for (const Choice& other : all)
      beaten |= other.cost <= choice.cost && other.memory <= choice.memory &&
                (other.cost < choice.cost || other.memory < choice.memory);
    const CostPoint point{choice.cost, choice.memory};
    if (!beaten && std::find(front.begin(), front.end(), point) == front.end()) front.push_back(point);
  }
  std::sort(front.begin(), front.end(), [](CostPoint a, CostPoint b) { return a.memory < b.memory; });
  return front;
}

std::vector<CostPoint> points_of(const std::vector<Choice>& choices) {
  std::vector<CostPoint> points;
  for (const Choice& choice : choices) points.push_back({choice.cost, choice.memory});
  return points;
}

}  // namespace

TEST_CASE("a chain of three decisions has the minimum that a pencil finds") {
  // a: 1 or 0; b: 0 or 0; c: 0 or 2. Equal neighbours are free, unlike ones cost 5.
  ChoiceGraph graph;
  graph.nodes = {{{1, 0}, {1, 1}}, {{0, 0}, {1, 1}}, {{0, 2}, {1, 1}}};
  graph.edges = {{0, 1, {0, 5, 5, 0}}, {1, 2, {0, 5, 5, 0}}};
  const std::vector<Choice> best = eliminate_all(graph, {});
  REQUIRE(best.size() == 1);
  CHECK(best[0].cost == 1);  // all take their first strategy: 1 + 0 + 0, against 0 + 0 + 2
  CHECK(best[0].strategies == std::vector<std::uint16_t>{0, 0, 0});
  CHECK(best[0].memory == 3);
}

TEST_CASE("memory against time: the front has what no other choice beats") {
  // Each of two operators is fast and large (1 s, 3 B) or slow and small (4 s, 1 B).
  ChoiceGraph graph;
  graph.nodes = {{{1, 4}, {3, 1}}, {{1, 4}, {3, 1}}};
  const std::vector<Choice> front = eliminate_all(graph, {.memory = 6, .front = true});
  CHECK(points_of(front) == std::vector<CostPoint>{{8, 2}, {5, 4}, {2, 6}});
  CHECK(points_of(eliminate_all(graph, {.memory = 5, .front = true})) ==
        std::vector<CostPoint>{{8, 2}, {5, 4}});
  CHECK(eliminate_all(graph, {.memory = 1, .front = true}).empty());
}

TEST_CASE("what is forbidden is never chosen, and where everything is there is no choice") {
  ChoiceGraph graph;
  graph.nodes = {{{0, 7}, {0, 0}}, {{0, 0}, {0, 0}}};
  graph.edges = {{1, 0, {none, 1, none, 2}}};  // rows: node 1
  const std::vector<Choice> best = eliminate_all(graph, {});
  REQUIRE(best.size() == 1);
  CHECK(best[0].strategies == std::vector<std::uint16_t>{1, 0});
  CHECK(best[0].cost == 8);
  graph.edges[0].cost = std::vector<double>(4, none);
  CHECK(eliminate_all(graph, {}).empty());
}

TEST_CASE("minimum, choice and front of small random graphs are those of trying everything") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const ChoiceGraph graph = random_choices(
        {.nodes = 2 + random() % 6, .most_strategies = 3, .edges = random() % 10, .forbidden_share = 0.1},
        random);
    CAPTURE(round, graph.nodes.size(), graph.edges.size());
    const std::vector<CostPoint> expected = front_by_hand(graph, 1e9);
    CHECK(points_of(eliminate_all(graph, {.memory = 1e9, .front = true})) == expected);
    const std::vector<Choice> best = eliminate_all(graph, {});
    REQUIRE(best.size() == (expected.empty() ? 0 : 1));
    if (!expected.empty()) CHECK(best[0].cost == expected.back().cost);
    if (expected.empty()) continue;
    const double limit = expected[expected.size() / 2].memory;
    CHECK(points_of(eliminate_all(graph, {.memory = limit, .front = true})) == front_by_hand(graph, limit));
  }
}

TEST_CASE("layers that repeat are solved once and give the minimum and front of the whole graph") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const std::size_t layers = 3 + random() % 3;
    ChoiceGraph graph =
        random_layers({.nodes = 2 + random() % 3, .most_strategies = 3, .edges = 3, .forbidden_share = 0.05},
                      layers, random);
    // In some rounds the first layer is joined to the last one, as tied embeddings are.
    if (round % 3 == 0) graph.edges.push_back(random_edge(graph, 0, graph.nodes.size() - 1, 0.05, random));
    CAPTURE(round, layers, graph.nodes.size());
    for (const bool front : {false, true}) {
      const ChoiceLimits limits{.memory = front ? 1e9 : none, .front = front};
      CHECK(points_of(choose_strategies(graph, limits)) == points_of(eliminate_all(graph, limits)));
    }
  }
}

TEST_CASE("fronts thinned to 512 buckets keep the minimum and what is feasible, within a bucket per layer") {
  std::mt19937 random(8);
  const ChoiceGraph graph =
      random_layers({.nodes = 5, .most_strategies = 5, .edges = 8, .forbidden_share = 0}, 16, random);
  const std::vector<Choice> exact = choose_strategies(graph, {.memory = 1e5, .front = true});
  REQUIRE(exact.size() > 3);
  const double limit = exact[exact.size() / 2].memory;
  const std::vector<Choice> thinned =
      choose_strategies(graph, {.memory = limit, .front = true, .buckets = 512});
  REQUIRE_FALSE(thinned.empty());
  CHECK(thinned.front().memory == exact.front().memory);
  CHECK(thinned.back().memory <= limit);
  CHECK(thinned.back().cost >= exact[exact.size() / 2].cost);
  CHECK(thinned.back().cost <= exact[exact.size() / 2].cost * 1.01);
}

TEST_CASE("a table beyond the limit is refused with its size before it is made") {
  std::mt19937 random(1);
  ChoiceGraph graph;
  for (int v = 0; v < 12; ++v)
    graph.nodes.push_back({std::vector<double>(100, 1), std::vector<double>(100, 1)});
  for (std::size_t a = 0; a < 12; ++a)
    for (std::size_t b = a + 1; b < 12; ++b) graph.edges.push_back({a, b, std::vector<double>(10'000, 1)});
  CHECK_THROWS_WITH(eliminate_all(graph, {}),
                    Catch::Contains("1e+24 entries over 12 decisions, more than 2e+08"));
  graph.edges[0].cost = std::vector<double>(9'999, 1);
  CHECK_THROWS_AS(eliminate_all(graph, {}), std::invalid_argument);
}

}  // namespace simrun
