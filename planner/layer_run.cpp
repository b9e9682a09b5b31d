#include "planner/layer_run.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace simrun {

std::vector<CostPoint> LayerRun::changed_into(std::size_t group, const Fronts& before) const {
  std::vector<CostPoint> points;
  for (std::size_t from = 0; from < before.size(); ++from)
    for (const CostPoint& point : before[from])
      points.push_back({point.cost + (*changes_)[from][group], point.memory});
  keep_front(points, limits_);
  return points;
}

void LayerRun::add(LayerOptions options) {
  Fronts fronts(changes_->size());
  for (std::size_t group = 0; group < changes_->size(); ++group) {
    const auto in_group = [&](const LayerOption& option) { return option.group == group; };
    if (std::none_of(options.begin(), options.end(), in_group)) continue;
    const std::vector<CostPoint> before =
        elements_.empty() ? std::vector<CostPoint>{{0, 0}} : changed_into(group, fronts_.back());
    std::vector<CostPoint>& points = fronts[group];
    for (const LayerOption& option : options) {
      if (!in_group(option)) continue;
      for (const CostPoint& point : before)
        points.push_back({point.cost + option.seconds, point.memory + option.bytes});
    }
    keep_front(points, limits_);
  }
  elements_.push_back(std::move(options));
  fronts_.push_back(std::move(fronts));
}

std::optional<LayerRun::End> LayerRun::cheapest_end(std::size_t count, const LayerOption* behind) const {
  std::optional<End> best;
  const Fronts& fronts = fronts_[count - 1];
  for (std::size_t group = 0; group < fronts.size(); ++group)
    for (const CostPoint& point : fronts[group]) {
      CostPoint whole = point;
      if (behind != nullptr) {
        whole.cost += (*changes_)[group][behind->group] + behind->seconds;
        whole.memory += behind->bytes;
        if (limits_.front && whole.memory > limits_.memory) continue;
      }
      if (!best || whole.cost < best->whole.cost) best = End{group, point, whole};
    }
  return best;
}

std::optional<CostPoint> LayerRun::cheapest(std::size_t count, const LayerOption* behind) const {
  const std::optional<End> end = cheapest_end(count, behind);
  return end ? std::optional(end->whole) : std::nullopt;
}

// The option and the point of the element before that gave exactly this point of an element.
LayerRun::Source LayerRun::source_of(std::size_t element, std::size_t group, const CostPoint& at) const {
  const LayerOptions& options = elements_[element];
  for (std::size_t option = 0; option < options.size(); ++option) {
    if (options[option].group != group) continue;
    const auto gives = [&](double cost, double memory) {
      return CostPoint{cost + options[option].seconds, memory + options[option].bytes} == at;
    };
    if (element == 0 && gives(0, 0)) return {option, 0, {}};
    if (element == 0) continue;
    for (std::size_t from = 0; from < changes_->size(); ++from)
      for (const CostPoint& before : fronts_[element - 1][from])
        if (gives(before.cost + (*changes_)[from][group], before.memory)) return {option, from, before};
  }
  assert(false && "every point comes from one before it");
  return {};
}

std::vector<std::size_t> LayerRun::choose(std::size_t count, const LayerOption* behind) const {
  const std::optional<End> end = cheapest_end(count, behind);
  if (!end) return {};
  std::vector<std::size_t> chosen(count, 0);
  Source at{0, end->group, end->before};
  for (std::size_t element = count; element-- > 0;) {
    at = source_of(element, at.group, at.before);
    chosen[element] = at.option;
  }
  return chosen;
}

}  // namespace simrun
