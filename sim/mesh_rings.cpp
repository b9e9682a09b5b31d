#include "sim/mesh_rings.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace simrun {

namespace {

using Ring = std::vector<std::int64_t>;

constexpr std::size_t most_gpus = 16;
constexpr int most_steps = 100'000;  // of the search; an NVLink mesh of 8 GPUs takes some hundred

// Finds as many rings as it can that share no link. GPUs by their place in the group.
class RingSearch {
 public:
  RingSearch(const Topology& topology, std::span<const std::int64_t> gpus)
      : n_(gpus.size()), free_(n_ * n_, 0), used_(n_, false), order_{0} {
    std::vector<double> bandwidth(n_ * n_, 0);
    double narrowest = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a < n_; ++a)
      for (std::size_t b = 0; b < n_; ++b) {
        if (a == b) continue;
        const Route route = topology.nominal_route(gpus[a], gpus[b]);
        if (route.count() > 1) continue;
        bandwidth[a * n_ + b] = topology.nominal_bandwidth(route.link.front());
        narrowest = std::min(narrowest, bandwidth[a * n_ + b]);
      }
    for (std::size_t i = 0; i < free_.size(); ++i)
      if (bandwidth[i] > 0) free_[i] = static_cast<int>(std::lround(bandwidth[i] / narrowest));
    most_ = std::numeric_limits<std::size_t>::max();
    for (std::size_t a = 0; a < n_; ++a) {
      std::size_t links = 0;
      for (std::size_t b = 0; b < n_; ++b) links += static_cast<std::size_t>(free_[a * n_ + b]);
      most_ = std::min(most_, links / 2);
    }
    used_[0] = true;
  }

  std::vector<std::vector<std::size_t>> find() {
    go_on();
    return best_;
  }

 private:
  bool is_over() const { return best_.size() == most_ || steps_ > most_steps; }
  void take(std::size_t a, std::size_t b, int links) {
    free_[a * n_ + b] -= links;
    free_[b * n_ + a] -= links;
  }

  void go_on() {
    if (is_over() || ++steps_ > most_steps) return;
    const std::size_t last = order_.back();
    if (order_.size() == n_) return close(last);
    for (std::size_t next = 1; next < n_ && !is_over(); ++next) {
      if (used_[next] || free_[last * n_ + next] == 0) continue;
      take(last, next, 1);
      used_[next] = true;
      order_.push_back(next);
      go_on();
      order_.pop_back();
      used_[next] = false;
      take(last, next, -1);
    }
  }

  // One more ring; then the next.
  void close(std::size_t last) {
    if (free_[last * n_] == 0) return;
    take(last, 0, 1);
    found_.push_back(order_);
    if (found_.size() > best_.size()) best_ = found_;
    std::vector<std::size_t> order{0};
    std::vector<bool> used(n_, false);
    used[0] = true;
    order_.swap(order);
    used_.swap(used);
    go_on();
    order_.swap(order);
    used_.swap(used);
    found_.pop_back();
    take(last, 0, -1);
  }

  std::size_t n_;
  std::vector<int> free_;  // links from one to another, in units of the narrowest
  std::vector<bool> used_;
  std::vector<std::size_t> order_;
  std::size_t most_ = 0;  // rings that the links of some GPU allow
  int steps_ = 0;
  std::vector<std::vector<std::size_t>> found_, best_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> rings_inside(const Topology& topology,
                                                    std::span<const std::int64_t> gpus) {
  const Ring in_order(gpus.begin(), gpus.end());
  if (topology.is_switched() || gpus.size() < 3 || gpus.size() > most_gpus) return {in_order};
  std::vector<Ring> rings;
  for (const std::vector<std::size_t>& order : RingSearch(topology, gpus).find()) {
    Ring ring;
    for (const std::size_t place : order) ring.push_back(gpus[place]);
    rings.push_back(ring);
    std::reverse(ring.begin() + 1, ring.end());
    rings.push_back(ring);
  }
  return rings.empty() ? std::vector<Ring>{in_order} : rings;
}

}  // namespace simrun
