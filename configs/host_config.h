#pragma once

#include <cstdint>

// The CPUs, memory and drives of a node as plain values.
namespace simrun {

// Of one node; the GPUs of a node share all but their PCIe links. Zeros: unknown, nothing can be offloaded.
struct Host {
  std::int64_t memory_bytes = 0;
  double memory_bandwidth = 0;                               // bytes/s
  double memory_efficiency = 0;                              // best sustained stream / memory_bandwidth
  double flops = 0;                                          // fp32 FLOP/s of all cores
  double pcie_bandwidth = 0;                                 // bytes/s per GPU and direction
  double pcie_efficiency = 0;                                // share that large pinned copies reach
  std::int64_t nvme_bytes = 0;                               // 0: no drives
  double nvme_read_bandwidth = 0, nvme_write_bandwidth = 0;  // bytes/s, all drives together
  bool operator==(const Host&) const = default;
};

}  // namespace simrun
