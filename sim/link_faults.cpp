#include "sim/link_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <stdexcept>

#include "models/philox.h"
#include "sim/link_pattern.h"

namespace simrun {

namespace {

constexpr double least_left = 0.01;  // of a link's bandwidth, beside background traffic
constexpr std::int64_t most_ways = 64;

std::vector<LinkIndex> matching(const Topology& topology, const std::string& key,
                                const std::string& pattern) {
  std::vector<LinkIndex> links;
  for (LinkIndex link = 0; link < topology.links(); ++link)
    if (matches_pattern(pattern, topology.name(link))) links.push_back(link);
  if (!links.empty()) return links;
  throw std::invalid_argument(
      fmt::format("{}: no link of this cluster is called '{}'; the first is {}, the last {}", key, pattern,
                  topology.name(0), topology.name(topology.links() - 1)));
}

// The nodes shuffled (Fisher and Yates): read as a cycle, each sends to the next and nobody to itself.
std::vector<std::int64_t> drawn_cycle(const RandomStream& random, std::int64_t nodes) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = nodes - 1; i > 0; --i) {
    const auto other = static_cast<std::int64_t>(random.uniform(i) * static_cast<double>(i + 1));
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(other)]);
  }
  return order;
}

struct NodePair {
  std::int64_t from = 0, to = 0;
};
std::vector<NodePair> node_pairs(const Cluster& cluster, const BackgroundTraffic& traffic) {
  std::vector<NodePair> pairs;
  for (std::size_t i = 0; i < traffic.from.size(); ++i) pairs.push_back({traffic.from[i], traffic.to[i]});
  if (!traffic.permutation || cluster.nodes < 2) return pairs;
  const RandomStream random(static_cast<std::uint64_t>(cluster.imperfections.seed),
                            "background " + traffic.name, 0);
  const std::vector<std::int64_t> order = drawn_cycle(random, cluster.nodes);
  for (std::size_t i = 0; i < order.size(); ++i) pairs.push_back({order[i], order[(i + 1) % order.size()]});
  return pairs;
}

}  // namespace

LinkFaults::LinkFaults(const Topology& nominal, const Cluster& cluster)
    : gpus_(std::max<std::int64_t>(cluster.gpus_per_node, 1)),
      ways_(nominal.switches() == nullptr ? 1 : std::min(nominal.switches()->ways(), most_ways)) {
  add_degraded(nominal, cluster.imperfections);
  if (!cluster.measured.empty()) refuse_inside_nodes(nominal);
  for (const BackgroundTraffic& traffic : cluster.imperfections.background)
    add_background(nominal, cluster, traffic);
}

const LinkFaults::Fault* LinkFaults::find(LinkIndex link) const {
  const auto at = std::lower_bound(faults_.begin(), faults_.end(), link,
                                   [](const Fault& fault, LinkIndex number) { return fault.link < number; });
  return at != faults_.end() && at->link == link ? &*at : nullptr;
}

// Faults of one link become one.
void LinkFaults::merge(std::vector<Fault> more) {
  faults_.insert(faults_.end(), more.begin(), more.end());
  std::stable_sort(faults_.begin(), faults_.end(),
                   [](const Fault& a, const Fault& b) { return a.link < b.link; });
  std::vector<Fault> merged;
  for (const Fault& fault : faults_) {
    if (merged.empty() || merged.back().link != fault.link) {
      merged.push_back(fault);
      continue;
    }
    merged.back().share *= fault.share;
    merged.back().taken += fault.taken;
    merged.back().added_latency_s += fault.added_latency_s;
  }
  faults_ = std::move(merged);
}

void LinkFaults::add_degraded(const Topology& topology, const Imperfections& imperfections) {
  std::vector<Fault> faults;
  for (const LinkFault& entry : imperfections.links)
    for (const LinkIndex link : matching(topology, "imperfections.links." + entry.name, entry.pattern))
      faults.push_back({link, entry.bandwidth_share, 0, entry.added_latency_s});
  merge(std::move(faults));
}

// What was measured there is not derived from links, and would not feel them.
void LinkFaults::refuse_inside_nodes(const Topology& topology) const {
  for (const Fault& fault : faults_) {
    const std::string name = topology.name(fault.link);
    if (!name.starts_with("node") || name.find(".nic") != std::string::npos) continue;
    throw std::invalid_argument(fmt::format(
        "imperfections.links: {} is inside a node, where cluster.measured stands in the place of links",
        name));
  }
}

void LinkFaults::add_background(const Topology& topology, const Cluster& cluster,
                                const BackgroundTraffic& traffic) {
  std::vector<Fault> taken;
  if (!traffic.pattern.empty())
    for (const LinkIndex link :
         matching(topology, "imperfections.background." + traffic.name, traffic.pattern))
      taken.push_back({link, 1, traffic.rate + traffic.share * topology.nominal_bandwidth(link), 0});
  const std::int64_t nics = cluster.nics_per_node > 0 ? cluster.nics_per_node : gpus_;
  const double of_nics =
      static_cast<double>(nics) * cluster.inter_node.bandwidth * cluster.inter_node.efficiency;
  const double of_gpu = (traffic.rate + traffic.share * of_nics) / static_cast<double>(gpus_);
  for (const NodePair& pair : node_pairs(cluster, traffic))
    for (std::int64_t gpu = 0; gpu < gpus_; ++gpu) {
      const Route way = route(topology, pair.from * gpus_ + gpu, pair.to * gpus_ + gpu);
      for (const LinkIndex link : way.links()) taken.push_back({link, 1, of_gpu, 0});
    }
  take(topology, traffic, taken);
}

void LinkFaults::take(const Topology& topology, const BackgroundTraffic& traffic,
                      const std::vector<Fault>& taken) {
  merge(taken);
  for (const Fault& of : taken) {
    const Fault& fault = *find(of.link);
    const double whole = topology.nominal_bandwidth(of.link) * fault.share;
    if (fault.share == 0 || fault.taken <= whole * (1 - least_left)) continue;
    throw std::invalid_argument(
        fmt::format("imperfections.background.{}: with {:.4g} GB/s of background traffic nothing is left of "
                    "the {:.4g} GB/s of {}",
                    traffic.name, fault.taken * 1e-9, whole * 1e-9, topology.name(of.link)));
  }
}

double LinkFaults::bandwidth(const Topology& topology, LinkIndex link) const {
  const double whole = topology.nominal_bandwidth(link);
  const Fault* const fault = find(link);
  if (fault == nullptr || fault->share == 0) return whole;  // on no route
  return whole * fault->share - fault->taken;
}

bool LinkFaults::is_open(const Route& route) const {
  return std::ranges::all_of(route.links(), [&](LinkIndex link) {
    const Fault* const fault = find(link);
    return fault == nullptr || fault->share > 0;
  });
}

Route LinkFaults::with_latency(Route route) const {
  for (const LinkIndex link : route.links())
    if (const Fault* const fault = find(link)) route.latency_s += fault->added_latency_s;
  return route;
}

std::optional<Route> LinkFaults::detour(const Topology& topology, std::int64_t from, std::int64_t to) const {
  const std::int64_t sender = from / gpus_ * gpus_, receiver = to / gpus_ * gpus_;
  for (std::int64_t further = 0; further < gpus_; ++further) {
    const std::int64_t by = sender + (from % gpus_ + further) % gpus_;
    const std::int64_t into = receiver + (to % gpus_ + further) % gpus_;
    for (const auto& [a, b] : {NodePair{by, into}, NodePair{by, to}, NodePair{from, into}})
      for (std::int64_t attempt = 0; attempt < ways_; ++attempt)
        if (const Route other = topology.nominal_route(a, b, attempt); is_open(other)) return other;
  }
  return std::nullopt;
}

Route LinkFaults::route(const Topology& topology, std::int64_t from, std::int64_t to) const {
  const Route nominal = topology.nominal_route(from, to);
  if (is_open(nominal)) return with_latency(nominal);
  if (topology.has_nics() && topology.domain_of(from) != topology.domain_of(to))
    if (const std::optional<Route> other = detour(topology, from, to)) return with_latency(*other);
  std::string failed;
  for (const LinkIndex link : nominal.links())
    if (const Fault* const fault = find(link); fault != nullptr && fault->share == 0)
      failed += (failed.empty() ? "" : " and ") + topology.name(link);
  throw std::invalid_argument(
      fmt::format("imperfections.links: GPU {} of node {} cannot reach GPU {} of node {} without {}",
                  from % gpus_, from / gpus_, to % gpus_, to / gpus_, failed));
}

Topology::Topology(const Cluster& cluster) : Topology(cluster, WithoutFaults{}) {
  if (cluster.imperfections.of_links()) faults_ = std::make_shared<const LinkFaults>(*this, cluster);
}

double Topology::bandwidth(LinkIndex link) const {
  return faults_ == nullptr ? nominal_bandwidth(link) : faults_->bandwidth(*this, link);
}

bool Topology::can_limit(LinkIndex link) const {
  return can_limit_nominally(link) || (faults_ != nullptr && faults_->has(link));
}

Route Topology::route(std::int64_t from, std::int64_t to) const {
  return faults_ == nullptr ? nominal_route(from, to) : faults_->route(*this, from, to);
}

}  // namespace simrun
