// conversions() against what each collective does with index sets, rank by rank.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <utility>

#include "tests/schedules/index_sets.h"

namespace simrun {
namespace {

using Axes = std::vector<AxisId>;

// Runs the conversions on index sets; "" if every rank ends with exactly the wanted piece.
std::string fault_of(const IndexSets& sets, const Layout& from, const Layout& to,
                     const std::vector<DimensionId>& dims) {
  IndexedTensor tensor = sets.held(from, dims);
  Layout at = from;
  for (const Conversion& step : conversions(from, to)) {
    const std::string fault = sets.apply(step, at, tensor);
    if (!fault.empty()) return std::string(to_string(step.opcode)) + " " + fault;
    at = step.result;
  }
  Axes summed = from.partial_sum;
  summed.insert(summed.end(), from.partial_max.begin(), from.partial_max.end());
  std::sort(summed.begin(), summed.end());
  return tensor == sets.held(to, dims, summed) ? "" : "a rank ends with another piece";
}

// All layouts of two dimensions over three axes: each axis is free, at some place in a dimension's list, or
// (with partials) partial.
std::vector<Layout> all_layouts(bool with_partials) {
  std::vector<Layout> layouts;
  const int places = with_partials ? 4 : 3;
  Axes order{0, 1, 2};
  do {
    for (int code = 0; code < places * places * places; ++code) {
      Axes of_dim[2];
      Layout layout;
      for (const AxisId axis : order) {
        const int divisor = axis == 0 ? 1 : axis == 1 ? places : places * places;
        const int place = code / divisor % places;
        if (place < 2) of_dim[place].push_back(axis);
        if (place == 3) layout.partial_sum.push_back(axis);
      }
      std::sort(layout.partial_sum.begin(), layout.partial_sum.end());
      for (DimensionId dim = 0; dim < 2; ++dim)
        if (!of_dim[dim].empty()) layout.splits.push_back({dim, of_dim[dim]});
      if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) layouts.push_back(layout);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return layouts;
}

TEST_CASE("index sets: a gather over the outer of two axes does not give the inner's blocks in order") {
  // Four ranks, axis 0 fastest; a dimension of 4 over axes (1, 0). Rank 1 has index 1, ranks 1 and 3 joined
  // along axis 1 have {1, 3}: no block of a dimension over axis 0 alone, which is {2, 3} for rank 1.
  const IndexSets sets({2, 2}, {4});
  const Layout both{{{0, {1, 0}}}, {}, {}};
  const Layout inner{{{0, {0}}}, {}, {}};
  IndexedTensor tensor = sets.held(both, {0});
  CHECK(tensor.pieces[1].indices[0] == std::vector<std::int64_t>{1});
  REQUIRE(sets.apply({Opcode::all_gather, {1}, Reduction::sum, inner}, both, tensor).empty());
  CHECK(tensor.pieces[1].indices[0] == std::vector<std::int64_t>{1, 3});
  CHECK(sets.held(inner, {0}).pieces[1].indices[0] == std::vector<std::int64_t>{2, 3});
}

TEST_CASE("index sets: an all-reduce of replicas counts a summand twice, of pieces adds unlike elements") {
  const IndexSets sets({2}, {4});
  const Layout split{{{0, {0}}}, {}, {}};
  IndexedTensor replicas = sets.held({}, {0}), pieces = sets.held(split, {0});
  CHECK(sets.apply({Opcode::all_reduce, {0}, Reduction::sum, {}}, {}, replicas) == "counts a summand twice");
  CHECK(sets.apply({Opcode::all_reduce, {0}, Reduction::sum, split}, split, pieces) ==
        "sums elements of different places");
}

TEST_CASE("conversions: every rank ends with exactly the wanted piece, for all ordered layouts over 3 axes",
          "[long]") {
  const std::vector<Layout> from = all_layouts(true), to = all_layouts(false);
  // k of 3 axes in two ordered lists: 1 + 3 x 2 + 3 x 6 + 24 = 49. With j axes partial: 49 + 3 x 11 + 3 x 3
  // + 1.
  REQUIRE(to.size() == 49);
  REQUIRE(from.size() == 92);
  const IndexSets sets({2, 3, 2}, {12, 12});
  for (const Layout& source : from)
    for (const Layout& target : to) {
      const std::string fault = fault_of(sets, source, target, {0, 1});
      if (fault.empty()) continue;
      CAPTURE(source.partial_sum, source.splits.size(), target.splits.size());
      FAIL(fault);
    }
}

TEST_CASE("conversions: random ordered layouts of three dimensions over five axes arrive piece by piece",
          "[long]") {
  std::mt19937 random(5);
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto random_layout = [&](std::size_t partials) {
    Layout layout;
    std::vector<Axes> of_dim(3);
    Axes order{0, 1, 2, 3, 4};
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    for (const AxisId axis : order) {
      const std::size_t place = below(4 + partials);
      if (place < 3) of_dim[place].push_back(axis);
      if (place == 4) layout.partial_sum.push_back(axis);
    }
    std::sort(layout.partial_sum.begin(), layout.partial_sum.end());
    for (DimensionId dim = 0; dim < 3; ++dim)
      if (!of_dim[dim].empty()) layout.splits.push_back({dim, of_dim[dim]});
    if (partials == 1 && below(4) == 0) std::swap(layout.partial_sum, layout.partial_max);
    return layout;
  };
  const IndexSets sets({2, 3, 2, 1, 2}, {24, 24, 24});
  for (int round = 0; round < 1500; ++round) {
    const Layout from = random_layout(1), to = random_layout(0);
    const std::string fault = fault_of(sets, from, to, {0, 1, 2});
    if (!fault.empty()) FAIL("round " << round << ": " << fault);
  }
}

}  // namespace
}  // namespace simrun
