#pragma once

namespace simrun {

struct LinkClass {
  double bandwidth = 0;   // bytes/s and direction, per GPU (intra_node) or per NIC (inter_node)
  double latency_s = 0;   // one hop, one message
  double efficiency = 1;  // payload share that large collectives reach
  bool sharp = false;     // its switches reduce: NVLink SHARP (intra_node), InfiniBand SHARP (inter_node)
  // bytes/s that one flow between two GPUs gets at most (inter_node): what one connection carries, or all
  // those that a message is spread over. 0: no limit.
  double flow_bandwidth = 0;
  bool operator==(const LinkClass&) const = default;
};

}  // namespace simrun
