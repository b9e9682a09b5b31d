#include "sim/switch_fabric.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

namespace {

std::int64_t rounded_up(std::int64_t number, std::int64_t by) { return (number - 1) / by + 1; }

std::int64_t at_least_1(std::int64_t number) { return std::max<std::int64_t>(number, 1); }

LinkIndex directed(LinkIndex first, std::int64_t pair, bool back) {
  return first + static_cast<LinkIndex>(2 * pair + (back ? 1 : 0));
}

}  // namespace

SwitchFabric::SwitchFabric(const Cluster& cluster, std::int64_t rails, double port_bandwidth)
    : fabric_(cluster.fabric), rails_(rails), port_bandwidth_(port_bandwidth) {
  fabric_.nodes_per_leaf = at_least_1(fabric_.nodes_per_leaf);
  fabric_.spines = at_least_1(fabric_.spines);
  fabric_.leaves_per_pod = at_least_1(fabric_.leaves_per_pod);
  fabric_.cores = at_least_1(fabric_.cores);
  rail_leaves_ = rounded_up(at_least_1(cluster.nodes), fabric_.nodes_per_leaf);
  if (fabric_.topology != FabricTopology::leaf_spine)
    pods_ = rounded_up(rail_leaves_, fabric_.leaves_per_pod);
  if (fabric_.routing != PathChoice::spray)
    count_ = {at_least_1(fabric_.planes), fabric_.spines, at_least_1(fabric_.cores / fabric_.spines)};
  leaf_pairs_ = rail_leaves_ * (fabric_.rail_optimized ? rails_ : 1) * count_.spines;
  plane_pairs_ = leaf_pairs_;
  if (fabric_.topology == FabricTopology::fat_tree)
    plane_pairs_ += pods_ * count_.spines * count_.cores_of_spine;
  if (fabric_.topology == FabricTopology::dragonfly_plus)
    plane_pairs_ += count_.spines * (pods_ * (pods_ - 1) / 2);
}

std::int64_t SwitchFabric::leaf_of(std::int64_t node, std::int64_t rail) const {
  const std::int64_t leaf = node / fabric_.nodes_per_leaf;
  return fabric_.rail_optimized ? rail * rail_leaves_ + leaf : leaf;
}

std::int64_t SwitchFabric::pod_of(std::int64_t node) const {
  if (fabric_.topology == FabricTopology::leaf_spine) return 0;
  return node / fabric_.nodes_per_leaf / fabric_.leaves_per_pod;
}

std::int64_t SwitchFabric::leaf_pair(std::int64_t plane, std::int64_t leaf, std::int64_t spine) const {
  return plane * plane_pairs_ + leaf * count_.spines + spine;
}

std::int64_t SwitchFabric::core_pair(const ChosenPath& path, std::int64_t pod) const {
  return path.plane * plane_pairs_ + leaf_pairs_ +
         (pod * count_.spines + path.spine) * count_.cores_of_spine + path.core;
}

// Pairs of pods a < b: those of pod 0 first.
std::int64_t SwitchFabric::pod_pair(const ChosenPath& path, std::int64_t a, std::int64_t b) const {
  return path.plane * plane_pairs_ + leaf_pairs_ + path.spine * (pods_ * (pods_ - 1) / 2) +
         a * (2 * pods_ - a - 1) / 2 + b - a - 1;
}

void SwitchFabric::cross_pods(const ChosenPath& path, std::int64_t from, std::int64_t to, LinkIndex first,
                              Route& route) const {
  route.latency_s += fabric_.core_latency_s;
  if (fabric_.topology == FabricTopology::fat_tree) {
    route.link.push_back(directed(first, core_pair(path, from), false));
    route.link.push_back(directed(first, core_pair(path, to), true));
  } else {
    const auto [low, high] = std::minmax(from, to);
    route.link.push_back(directed(first, pod_pair(path, low, high), from > to));
  }
}

std::int64_t SwitchFabric::cross(const NicPlace& from, const NicPlace& to, LinkIndex first,
                                 Route& route) const {
  const ChosenPath path = choose_path(fabric_.routing, count_, from, to);
  const std::int64_t own = leaf_of(from.node, from.rail), other = leaf_of(to.node, to.rail);
  if (own == other) return path.plane;
  route.latency_s += fabric_.spine_latency_s;
  route.link.push_back(directed(first, leaf_pair(path.plane, own, path.spine), false));
  const std::int64_t own_pod = pod_of(from.node), other_pod = pod_of(to.node);
  if (own_pod != other_pod) cross_pods(path, own_pod, other_pod, first, route);
  route.link.push_back(directed(first, leaf_pair(path.plane, other, path.spine), true));
  return path.plane;
}

double SwitchFabric::leaf_link_bandwidth() const {
  const auto ports = static_cast<double>(fabric_.nodes_per_leaf * (fabric_.rail_optimized ? 1 : rails_));
  return ports * (port_bandwidth_ / static_cast<double>(count_.planes)) / fabric_.oversubscription /
         static_cast<double>(count_.spines);
}

double SwitchFabric::bandwidth(std::int64_t pair) const {
  if (!is_core(pair)) return leaf_link_bandwidth();
  const auto leaves = static_cast<double>(fabric_.leaves_per_pod * (fabric_.rail_optimized ? rails_ : 1));
  const double upwards = leaves * leaf_link_bandwidth() / fabric_.core_oversubscription;
  const bool is_tree = fabric_.topology == FabricTopology::fat_tree;
  return upwards / static_cast<double>(is_tree ? count_.cores_of_spine : pods_ - 1);
}

double SwitchFabric::leaf_group_uplinks() const {
  const std::int64_t leaves = fabric_.rail_optimized ? rails_ : 1;
  return static_cast<double>(leaves * count_.spines * count_.planes) * leaf_link_bandwidth();
}

double SwitchFabric::pod_uplinks(std::int64_t others) const {
  const std::int64_t links = fabric_.topology == FabricTopology::fat_tree ? count_.cores_of_spine : others;
  return static_cast<double>(links * count_.spines * count_.planes) * bandwidth(leaf_pairs_);
}

bool SwitchFabric::can_limit(std::int64_t pair) const {
  if (count_.spines > 1 || fabric_.oversubscription > 1) return true;
  if (!is_core(pair)) return false;
  return fabric_.topology == FabricTopology::dragonfly_plus || count_.cores_of_spine > 1 ||
         fabric_.core_oversubscription > 1;
}

std::string SwitchFabric::core_name(std::int64_t number, bool back) const {
  if (fabric_.topology == FabricTopology::fat_tree) {
    const std::int64_t core = number % count_.cores_of_spine, spine = number / count_.cores_of_spine;
    return fmt::format("pod{}.spine{}.core{}.{}", spine / count_.spines, spine % count_.spines,
                       spine % count_.spines * count_.cores_of_spine + core, back ? "down" : "up");
  }
  const std::int64_t of_spine = pods_ * (pods_ - 1) / 2, spine = number / of_spine;
  std::int64_t low = 0, left = number % of_spine;
  while (left >= pods_ - low - 1) left -= pods_ - low++ - 1;
  const std::int64_t high = low + 1 + left;
  return fmt::format("pod{}.spine{}.pod{}", back ? high : low, spine, back ? low : high);
}

std::string SwitchFabric::name(std::int64_t pair, bool back) const {
  const std::string plane = count_.planes > 1 ? fmt::format("plane{}.", pair / plane_pairs_) : std::string();
  const std::int64_t number = pair % plane_pairs_;
  if (number >= leaf_pairs_) return plane + core_name(number - leaf_pairs_, back);
  const std::int64_t leaf = number / count_.spines, spine = number % count_.spines;
  const std::string rail =
      fabric_.rail_optimized ? fmt::format("rail{}.", leaf / rail_leaves_) : std::string();
  return fmt::format("{}{}leaf{}.spine{}.{}", plane, rail, leaf % rail_leaves_, spine, back ? "down" : "up");
}

}  // namespace simrun
