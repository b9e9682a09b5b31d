#pragma once

#include <cstdint>

namespace simrun {

// Where the servers run: on the data-parallel ranks themselves, or on GPUs of their own, the cluster's last.
enum class ServerPlacement : std::uint8_t { colocated, dedicated };

// What a step waits for (Li et al. 2014, OSDI, section 3.4: sequential, eventual, bounded delay):
//   synchronous        the update with the gradients of all workers of the step before
//   bounded_staleness  that of `staleness` steps earlier (stale synchronous parallel, Ho et al. 2013, NIPS)
//   asynchronous       nothing: a server updates with each worker's gradients as they come
enum class ServerMode : std::uint8_t { synchronous, asynchronous, bounded_staleness };

// A parameter server in place of the all-reduce: workers push gradients to servers and pull weights from
// them; only servers keep the optimizer's state (schedules/parameter_server.h).
struct ParameterServerConfig {
  std::int64_t servers = 0;
  ServerPlacement placement = ServerPlacement::colocated;
  ServerMode mode = ServerMode::synchronous;
  std::int64_t staleness = 0;  // steps; bounded_staleness only, >= 1
  bool operator==(const ParameterServerConfig&) const = default;
};

}  // namespace simrun
