#pragma once

namespace simrun {

struct LinkClass {
  double bandwidth = 0;   // bytes/s and direction, per GPU (intra_node) or per NIC (inter_node)
  double latency_s = 0;   // one hop, one message
  double efficiency = 1;  // payload share that large collectives reach
  bool sharp = false;     // its switches reduce: NVLink SHARP (intra_node), InfiniBand SHARP (inter_node)
  bool operator==(const LinkClass&) const = default;
};

}  // namespace simrun
