#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/pareto_front.h"

namespace simrun {

// One way to run an element of a chain: a layer, or what is before the first or behind the last.
struct LayerOption {
  std::size_t group = 0;  // of equal layouts at its borders
  double seconds = 0, bytes = 0;
  bool operator==(const LayerOption&) const = default;
};
using LayerOptions = std::vector<LayerOption>;

// Seconds between an element of one group and the next one of another: [before][behind].
using GroupChanges = std::vector<std::vector<double>>;

// A chain of elements that each run in one of several ways, and what its beginnings cost at best within a
// limit of memory: Galvatron's dynamic program over layers (Miao et al. 2022, arXiv 2211.13878),
// with Pareto lists of (seconds, bytes) per group in place of a grid of memory. Exact, unless
// `limits.buckets` thins the lists. O(elements x groups x (groups + options) x points).
class LayerRun {
 public:
  // `changes` must outlive it.
  LayerRun(const GroupChanges& changes, const ChoiceLimits& limits) : changes_(&changes), limits_(limits) {}

  // One more element at the end.
  void add(LayerOptions options);
  std::size_t elements() const { return elements_.size(); }

  // The cheapest way to run the first so many elements, and one more behind them if it is given; nothing
  // where none fits. REQUIRES: 0 < count <= elements().
  std::optional<CostPoint> cheapest(std::size_t count, const LayerOption* behind = nullptr) const;
  // Its options, by element; that of `behind` is left out.
  std::vector<std::size_t> choose(std::size_t count, const LayerOption* behind = nullptr) const;

 private:
  using Fronts = std::vector<std::vector<CostPoint>>;  // by group
  struct End {
    std::size_t group = 0;
    CostPoint before;  // of the elements
    CostPoint whole;   // with what is behind
  };
  struct Source {
    std::size_t option = 0;
    std::size_t group = 0;  // of the element before
    CostPoint before;
  };
  Source source_of(std::size_t element, std::size_t group, const CostPoint& at) const;
  std::optional<End> cheapest_end(std::size_t count, const LayerOption* behind) const;
  std::vector<CostPoint> changed_into(std::size_t group, const Fronts& before) const;

  const GroupChanges* changes_;
  ChoiceLimits limits_;
  std::vector<LayerOptions> elements_;
  std::vector<Fronts> fronts_;  // of all elements up to each
};

}  // namespace simrun
