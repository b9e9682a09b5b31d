#pragma once

#include <vector>

#include "sim/collective_tuner.h"

namespace simrun {

// A collective alone on a cluster: over the first `gpus_per_node` GPUs of its first nodes, for every number
// of nodes and every size.
struct CollectiveQuery {
  Cluster cluster;  // with as many nodes and GPUs as are asked for
  Opcode opcode =
      Opcode::all_reduce;  // send: every rank to the next and from the one before, as sendrecv_perf
  std::vector<std::int64_t> nodes;
  std::int64_t gpus_per_node = 1;
  std::vector<std::int64_t> bytes;  // as nccl-tests count them: the gathered, the unreduced, a rank's own
};

struct CollectiveRow {
  std::int64_t nodes = 0, ranks = 0, bytes = 0;
  CollectiveChoice choice;
  double time_s = 0;
  double algbw = 0;  // bytes / time, bytes/s
  double busbw = 0;  // algbw x bus_factor
};

// A row for each number of nodes, then size. Their flows run over the links of the topology in SimGrid, one
// row after the other, in one worker process. One rank alone has nothing to do: time 0 and no bandwidth.
// Throws WorkerError.
std::vector<CollectiveRow> collective_table(const CollectiveQuery& query);

// The flows of a row, and how they were chosen.
TunedCollective collective_of(const CollectiveQuery& query, const Topology& topology, std::int64_t nodes,
                              std::int64_t bytes);

}  // namespace simrun
