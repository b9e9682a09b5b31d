#include "sim/torus_links.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

TorusLinks::TorusLinks(const Cluster& cluster)
    : wraps_(cluster.fabric.torus_wraps),
      bandwidth_(cluster.inter_node.bandwidth * cluster.inter_node.efficiency),
      latency_s_(cluster.inter_node.latency_s),
      hop_latency_s_(cluster.fabric.hop_latency_s) {
  std::copy_n(cluster.fabric.torus.begin(), std::min(cluster.fabric.torus.size(), size_.size()),
              size_.begin());
  for (const std::int64_t size : size_) devices_ *= size;
}

std::string TorusLinks::name(std::int64_t pair, bool back) const {
  constexpr std::array axis{'x', 'y', 'z'};
  return fmt::format("gpu{}.{}_{}", pair / 3, axis.at(static_cast<std::size_t>(pair % 3)),
                     back ? "back" : "forward");
}

void TorusLinks::cross(std::int64_t from, std::int64_t to, Route& route) const {
  std::int64_t at = from, stride = 1;
  for (std::int64_t dimension = 0; dimension < 3; ++dimension) {
    const std::int64_t size = size_[static_cast<std::size_t>(dimension)];
    const std::int64_t own = from / stride % size, other = to / stride % size;
    const std::int64_t ahead = (other - own + size) % size;
    bool forwards = wraps_ ? 2 * ahead < size : other > own;
    if (wraps_ && 2 * ahead == size) forwards = own % 2 == 0;
    const std::int64_t hops = forwards ? ahead : wraps_ ? size - ahead : own - other;
    for (std::int64_t hop = 0, place = own; ahead != 0 && hop < hops; ++hop) {
      const std::int64_t next = (place + (forwards ? 1 : size - 1)) % size;
      const std::int64_t owner = at + ((forwards ? place : next) - place) * stride;
      route.link.push_back(static_cast<LinkIndex>(2 * (3 * owner + dimension) + (forwards ? 0 : 1)));
      at += (next - place) * stride;
      place = next;
    }
    stride *= size;
  }
  route.latency_s += latency_s_ + static_cast<double>(route.count() - 1) * hop_latency_s_;
}

}  // namespace simrun
