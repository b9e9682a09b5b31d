#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace simrun {

// One value of every factor.
using Combination = std::vector<std::size_t>;

struct Cover {
  std::vector<Combination> combinations;
  std::size_t pairs = 0;       // of two values of two factors that some combination has
  std::size_t infeasible = 0;  // for which no legal combination was found
};

// Combinations that `is_legal` accepts, such that every two values of two factors that go together meet in
// one of them (a pairwise covering array, built greedily: Cohen et al. 1997, "The AETG system", section 3).
// Value 0 of a factor is its plainest: a pair that nothing goes with but plain values is found.
// Deterministic.
Cover pairwise_cover(const std::vector<std::size_t>& sizes,
                     const std::function<bool(const Combination&)>& is_legal, std::uint32_t seed);

}  // namespace simrun
