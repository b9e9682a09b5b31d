#pragma once

#include <cstdint>
#include <vector>

#include "configs/cluster_config.h"

namespace simrun {

// A logical mesh over one stage's devices: axis `x` over neighbours, `y` over groups of these.
struct LogicalMesh {
  std::int64_t x = 1, y = 1;
  std::int64_t devices() const { return x * y; }
  bool operator==(const LogicalMesh&) const = default;
};

// Products of the first prime factors of a number, ascending: the sizes of `x` that are tried. A mesh with an
// axis per factor has all of them, so stages may differ in theirs.
std::vector<std::int64_t> prefix_products(std::int64_t devices);

// The fewest ranks that must share sequences where a stage has fewer of them than devices.
std::int64_t tensor_ranks(std::int64_t sequences, std::int64_t devices);

// A part of a node that divides it, or whole nodes (Zheng et al. 2022, section 5.1).
bool is_sub_mesh(const Cluster& cluster, std::int64_t devices);

// That reach each other over NVLink: of a node, or of the nodes on one NVLink switch (GB200 NVL72: 72).
std::int64_t gpus_of_domain(const Cluster& cluster);

}  // namespace simrun
