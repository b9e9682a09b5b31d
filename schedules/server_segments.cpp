// The part of ChunkSegments about parameter servers: one stage on one rank.
#include <utility>

#include "schedules/chunk_segments.h"
#include "schedules/server_exchanges.h"

namespace simrun {

Index ChunkSegments::server_exchange(Index worker_segment, Steps steps) {
  if (context(0).servers.one_sided) return no_index;  // workers write and read the servers' memory
  std::vector<Instruction> ends =
      server_ends(context(0), chunks_.front().emission, plan_.segments[worker_segment].instructions,
                  steps == Steps::not_first);
  if (ends.empty()) return no_index;
  return add_segment("servers of " + plan_.segments[worker_segment].name, PassKind::communication,
                     chunks_.front().emission.chunk, std::move(ends));
}

Index ChunkSegments::server_update() {
  const ChunkEmission& emission = chunks_.front().emission;
  std::vector<Instruction> updates = server_updates(context(0), plan_, emission, table_);
  return add_segment("servers optimizer step", PassKind::step, emission.chunk, std::move(updates));
}

std::optional<ParameterServers> ChunkSegments::parameter_servers() const {
  if (!job_.optimizer.parameter_server) return {};
  const ServerRules rules = server_rules(job_);
  ParameterServers facts;
  facts.servers = rules.count;
  facts.dedicated = rules.dedicated;
  facts.mode = job_.optimizer.parameter_server->mode;
  facts.staleness = job_.optimizer.parameter_server->staleness;
  facts.delay = rules.delay;
  for (const ParameterBucket& bucket : chunks_.front().emission.buckets)
    if (!bucket.frozen)
      facts.bytes_per_server += bucket.elements / rules.count * bytes_of(plan_.buffers[bucket.weights].dtype);
  return facts;
}

}  // namespace simrun
