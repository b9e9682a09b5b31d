#pragma once

#include <fmt/format.h>

#include <string>

namespace simrun {

// The first GPUs of one p3.16xlarge, or whole ones: what Alpa (Zheng et al. 2022) was measured on.
inline std::string alpa_cluster(int gpus) {
  if (gpus < 8) return fmt::format("{{from: aws_p3_16xlarge, nodes: 1, gpus_per_node: {}}}", gpus);
  return fmt::format("{{from: aws_p3_16xlarge, nodes: {}}}", gpus / 8);
}

}  // namespace simrun
