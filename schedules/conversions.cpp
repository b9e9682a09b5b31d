#include <algorithm>
#include <utility>

#include "schedules/layout.h"

namespace simrun {
namespace {

using Axes = std::vector<AxisId>;

bool contains(const Axes& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// The layout on its way, changed one dimension at a time.
class LayoutChange {
 public:
  LayoutChange(const Layout& from, const Layout& to) : state_(from), to_(to) {}

  std::vector<Conversion> run() {
    reduce(&Layout::partial_sum, Reduction::sum);
    reduce(&Layout::partial_max, Reduction::max);
    for (std::size_t s = 0; s < state_.splits.size();)
      s = is_kept(state_.splits[s]) ? s + 1 : (give_up(state_.splits[s].dim), 0);
    for (const DimensionSplit& wanted : to_.splits) {
      const Axes missing = rest_of(wanted);
      if (!missing.empty()) extend(wanted, missing.size(), Opcode::copy, Reduction::sum);
    }
    return std::move(steps_);
  }

 private:
  static bool starts_with(const Axes& axes, const Axes& head) {
    return head.size() <= axes.size() && std::equal(head.begin(), head.end(), axes.begin());
  }
  const Axes& held(DimensionId dim) const {
    static const Axes none;
    const DimensionSplit* split = state_.split_of(dim);
    return split == nullptr ? none : split->axes;
  }
  // A wanted split that what is held is the outer part of.
  bool is_kept(const DimensionSplit& split) const {
    const DimensionSplit* wanted = to_.split_of(split.dim);
    return wanted != nullptr && wanted->tiling == split.tiling && wanted->table == split.table &&
           starts_with(wanted->axes, split.axes);
  }
  // The axes that a wanted split still lacks; none if it cannot be had by splitting further.
  Axes rest_of(const DimensionSplit& wanted) const {
    const DimensionSplit* split = state_.split_of(wanted.dim);
    if (split == nullptr) return wanted.axes;
    if (!is_kept(*split)) return {};
    return {wanted.axes.begin() + static_cast<std::ptrdiff_t>(split->axes.size()), wanted.axes.end()};
  }

  // Splits a dimension further, over the next `count` of its wanted axes.
  void extend(const DimensionSplit& wanted, std::size_t count, Opcode opcode, Reduction reduction) {
    const std::size_t before = held(wanted.dim).size();
    DimensionSplit split = wanted;
    split.axes.resize(before + count);
    std::erase_if(state_.splits, [&](const DimensionSplit& s) { return s.dim == wanted.dim; });
    state_.splits.push_back(split);
    std::sort(state_.splits.begin(), state_.splits.end(),
              [](const DimensionSplit& a, const DimensionSplit& b) { return a.dim < b.dim; });
    const Axes axes(split.axes.begin() + static_cast<std::ptrdiff_t>(before), split.axes.end());
    steps_.push_back({opcode, axes, reduction, state_});
  }

  // Resolves the partial axes for one reduction: to a split where the target wants one over them, else to
  // replicas.
  void reduce(Axes Layout::*partial, Reduction reduction) {
    for (const DimensionSplit& wanted : to_.splits) {
      Axes& summed = state_.*partial;
      const Axes missing = rest_of(wanted);
      std::size_t count = 0;
      while (count < missing.size() && contains(summed, missing[count])) ++count;
      if (count == 0) continue;
      std::erase_if(summed, [&](AxisId a) {
        return contains({missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(count)}, a);
      });
      extend(wanted, count, Opcode::reduce_scatter, reduction);
    }
    if ((state_.*partial).empty()) return;
    const Axes axes = state_.*partial;
    (state_.*partial).clear();
    steps_.push_back({Opcode::all_reduce, axes, reduction, state_});
  }

  // Drops inner axes of a dimension's split, as many as must go: by exchange for another dimension's split
  // where that goes on with them, else by gathering.
  void give_up(DimensionId dim) {
    const DimensionSplit split = *state_.split_of(dim);
    const DimensionSplit* wanted = to_.split_of(dim);
    std::size_t keep = 0;
    if (wanted != nullptr && wanted->tiling == split.tiling && wanted->table == split.table)
      while (keep < split.axes.size() && keep < wanted->axes.size() && split.axes[keep] == wanted->axes[keep])
        ++keep;
    for (std::size_t from = keep; from < split.axes.size(); ++from)
      if (exchange(split, from)) return;
    shorten(split, keep);
    steps_.push_back({Opcode::all_gather,
                      {split.axes.begin() + static_cast<std::ptrdiff_t>(keep), split.axes.end()},
                      Reduction::sum,
                      state_});
  }

  void shorten(const DimensionSplit& split, std::size_t keep) {
    std::erase_if(state_.splits, [&](const DimensionSplit& s) { return s.dim == split.dim; });
    if (keep == 0) return;
    DimensionSplit outer = split;
    outer.axes.resize(keep);
    state_.splits.push_back(outer);
    std::sort(state_.splits.begin(), state_.splits.end(),
              [](const DimensionSplit& a, const DimensionSplit& b) { return a.dim < b.dim; });
  }

  // Moves the axes of a split from position `from` on to another dimension, if its wanted split goes on with
  // just these.
  bool exchange(const DimensionSplit& split, std::size_t from) {
    const Axes moved(split.axes.begin() + static_cast<std::ptrdiff_t>(from), split.axes.end());
    for (const DimensionSplit& wanted : to_.splits) {
      if (wanted.dim == split.dim || !starts_with(rest_of(wanted), moved)) continue;
      shorten(split, from);
      extend(wanted, moved.size(), Opcode::all_to_all, Reduction::sum);
      return true;
    }
    return false;
  }

  Layout state_;
  const Layout& to_;
  std::vector<Conversion> steps_;
};

std::vector<Conversion> merged(std::vector<Conversion> steps) {
  std::vector<Conversion> fewer;
  for (Conversion& step : steps) {
    const bool goes_on = !fewer.empty() && fewer.back().opcode == step.opcode &&
                         fewer.back().reduction == step.reduction &&
                         (step.opcode == Opcode::all_gather || step.opcode == Opcode::reduce_scatter);
    if (goes_on) {
      step.axes.insert(step.axes.begin(), fewer.back().axes.begin(), fewer.back().axes.end());
      fewer.pop_back();
    }
    fewer.push_back(std::move(step));
  }
  return fewer;
}

}  // namespace

std::vector<Conversion> conversions(const Layout& from, const Layout& to, bool as_tokens) {
  std::vector<Conversion> steps = LayoutChange(from, to).run();
  return as_tokens ? merged(std::move(steps)) : steps;
}

}  // namespace simrun
