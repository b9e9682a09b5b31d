#pragma once

#include <fmt/format.h>

#include <string>

namespace simrun {

// The first GPUs of one p3.16xlarge, or whole ones: what Alpa (Zheng et al. 2022) was measured on.
inline std::string alpa_cluster(int gpus) {
  switch (gpus) {
    case 1: return "{from: dgx_a100, gpu: v100_sxm2_16gb, nodes: 1, gpus_per_node: 1}";
    case 2:
      return "{from: aws_p3_16xlarge, nodes: 1, gpus_per_node: 2, intra_node: {nvlinks: [0-1]}, "
             "pcie: {gpu_switches: [0, 0], nic_switches: [0], switch_sockets: [0]}}";
    case 4:
      return "{from: aws_p3_16xlarge, nodes: 1, gpus_per_node: 4, intra_node: {nvlinks: [0-1, 0-2, 0-3x2, "
             "1-2x2, 1-3, 2-3x2]}, pcie: {gpu_switches: [0, 0, 1, 1], nic_switches: [0], switch_sockets: [0, "
             "0]}}";
    default: return fmt::format("{{from: aws_p3_16xlarge, nodes: {}}}", gpus / 8);
  }
}

}  // namespace simrun
