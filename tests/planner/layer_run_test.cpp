#include "planner/layer_run.h"

#include <catch2/catch.hpp>
#include <random>

namespace simrun {
namespace {

// Every choice of options, one after the other.
struct EveryChoice {
  const std::vector<LayerOptions>& elements;
  const GroupChanges& changes;
  double limit;
  double best = forbidden_cost;

  void visit(std::size_t element, std::size_t group, CostPoint so_far) {
    if (so_far.memory > limit) return;
    if (element == elements.size()) {
      best = std::min(best, so_far.cost);
      return;
    }
    for (const LayerOption& option : elements[element]) {
      const double change = element == 0 ? 0 : changes[group][option.group];
      visit(element + 1, option.group, {so_far.cost + change + option.seconds, so_far.memory + option.bytes});
    }
  }
};

double best_of_all(const std::vector<LayerOptions>& elements, const GroupChanges& changes, double limit) {
  EveryChoice every{elements, changes, limit};
  every.visit(0, 0, {});
  return every.best;
}

CostPoint sum_of(const std::vector<LayerOptions>& elements, const GroupChanges& changes,
                 const std::vector<std::size_t>& chosen) {
  CostPoint sum;
  for (std::size_t e = 0; e < elements.size(); ++e) {
    const LayerOption& option = elements[e].at(chosen.at(e));
    if (e > 0) sum.cost += changes[elements[e - 1][chosen[e - 1]].group][option.group];
    sum.cost += option.seconds;
    sum.memory += option.bytes;
  }
  return sum;
}

}  // namespace

TEST_CASE("a layer gives up its fastest strategy only where memory makes it, and as few as it takes") {
  // Two layers; each takes 3 s in 5 bytes, or 4 s in 2 bytes.
  const LayerOptions ways{{0, 3, 5}, {0, 4, 2}};
  const GroupChanges none{{0}};
  const auto best = [&](double bytes) {
    LayerRun run(none, {.memory = bytes, .front = true});
    run.add(ways);
    run.add(ways);
    return run.cheapest(2);
  };
  CHECK(best(10)->cost == 6);  // 5 + 5 bytes
  CHECK(best(9)->cost == 7);   // 5 + 2
  CHECK(best(6)->cost == 8);   // 2 + 2
  CHECK_FALSE(best(3).has_value());
}

TEST_CASE("unlike neighbours pay for the change, so that few changes are made") {
  // The first layer is faster in group 0, the second in group 1, by 1 s each.
  const std::vector<LayerOptions> layers{{{0, 1, 0}, {1, 2, 0}}, {{0, 2, 0}, {1, 1, 0}}};
  for (const double change : {0.5, 1.5}) {
    const GroupChanges changes{{0, change}, {change, 0}};
    LayerRun run(changes, {});
    for (const LayerOptions& layer : layers) run.add(layer);
    CHECK(run.cheapest(2)->cost == (change < 1 ? 2.5 : 3));  // 1 + 0.5 + 1, or 1 + 2
  }
}

TEST_CASE("the dynamic program over layers finds what trying every choice finds") {
  std::mt19937 random(7);
  const auto below = [&](unsigned most) { return static_cast<double>(random() % most); };
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t groups = 1 + random() % 3, count = 1 + random() % 6;
    GroupChanges changes(groups, std::vector<double>(groups, 0));
    for (std::size_t from = 0; from < groups; ++from)
      for (std::size_t to = 0; to < groups; ++to)
        if (from != to) changes[from][to] = below(5);
    std::vector<LayerOptions> elements(count);
    for (LayerOptions& options : elements)
      for (std::size_t o = 0; o < 1 + random() % 4; ++o)
        options.push_back({random() % groups, below(20), below(20)});
    const double limit = below(20 * static_cast<unsigned>(count));
    LayerRun run(changes, {.memory = limit, .front = true});
    for (std::size_t e = 0; e + 1 < count; ++e) run.add(elements[e]);
    const double expected = best_of_all(elements, changes, limit);
    CAPTURE(trial, groups, count, limit);
    if (count > 1) {  // the last element as what is behind the others
      const LayerOption behind = elements.back().front();
      std::vector<LayerOptions> with_behind = elements;
      with_behind.back() = {behind};
      const auto found = run.cheapest(count - 1, &behind);
      CHECK((found ? found->cost : forbidden_cost) == best_of_all(with_behind, changes, limit));
      if (found) {
        std::vector<std::size_t> chosen = run.choose(count - 1, &behind);
        chosen.push_back(0);
        CHECK(sum_of(with_behind, changes, chosen) == *found);
      }
    }
    run.add(elements.back());
    const auto found = run.cheapest(count);
    CHECK((found ? found->cost : forbidden_cost) == expected);
    if (found) CHECK(sum_of(elements, changes, run.choose(count)) == *found);
  }
}

}  // namespace simrun
