#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "configs/cluster_config.h"
#include "sim/route.h"

namespace simrun {

// A torus (or mesh) of up to three dimensions: a pair of links from every GPU to the next in each dimension,
// the even one forwards. GPU x + X (y + Y z) is at (x, y, z). In a dimension of two GPUs both links lead to
// the other one; a mesh leaves those from the last to the first unused.
class TorusLinks {
 public:
  explicit TorusLinks(const Cluster& cluster);
  std::int64_t pairs() const { return devices_ * static_cast<std::int64_t>(size_.size()); }
  double bandwidth() const { return bandwidth_; }
  std::string name(std::int64_t pair, bool back) const;  // "gpu5.x_forward": out of GPU 5, in "gpu5.x_back"
  // Dimension by dimension, the shorter way around; of two equal ones from an even coordinate forwards, from
  // an odd one back. Latency: one hop of inter_node, and hop_latency for every further one.
  void cross(std::int64_t from, std::int64_t to, Route& route) const;

 private:
  std::array<std::int64_t, 3> size_{1, 1, 1};
  std::int64_t devices_ = 1;
  bool wraps_ = true;
  double bandwidth_ = 0, latency_s_ = 0, hop_latency_s_ = 0;
};

}  // namespace simrun
