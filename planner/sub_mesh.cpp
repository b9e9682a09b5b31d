#include "planner/sub_mesh.h"

namespace simrun {

std::vector<std::int64_t> prefix_products(std::int64_t devices) {
  std::vector<std::int64_t> products{1};
  for (std::int64_t factor = 2; devices > 1;) {
    if (devices % factor != 0) {
      ++factor;
      continue;
    }
    products.push_back(products.back() * factor);
    devices /= factor;
  }
  return products;
}

std::int64_t tensor_ranks(std::int64_t sequences, std::int64_t devices) {
  for (const std::int64_t ranks : prefix_products(devices))
    if (sequences % (devices / ranks) == 0) return ranks;
  return devices;
}

bool is_sub_mesh(const Cluster& cluster, std::int64_t devices) {
  return devices <= cluster.gpus_per_node ? cluster.gpus_per_node % devices == 0
                                          : devices % cluster.gpus_per_node == 0;
}

std::int64_t gpus_of_domain(const Cluster& cluster) {
  return cluster.gpus_per_node * cluster.wiring.nodes_per_domain;
}

}  // namespace simrun
