#include <utility>

#include "backend/exchange.h"

// Who takes part in an exchange: the other ends of a communication, from the plan alone.
namespace simrun {
namespace {

constexpr std::uint32_t without_channel = 0x80000000;

const StageDevices& stage_of(const Plan& plan, std::int32_t pipeline_rank) {
  return plan.stages[static_cast<std::size_t>(pipeline_rank)];
}

std::int64_t first_rank_of(const Plan& plan, std::int32_t pipeline_rank) {
  std::int64_t first = 0;
  for (std::int32_t stage = 0; stage < pipeline_rank; ++stage)
    for (const DeviceRange& range : stage_of(plan, stage).devices) first += range.count;
  return first;
}

RankPlace place_of(const Plan& plan, std::int32_t pipeline_rank, std::int64_t local) {
  return {pipeline_rank, local, first_rank_of(plan, pipeline_rank) + local};
}

}  // namespace

MessageTag tag_of(const Plan& plan, const Instruction& what, std::int32_t microbatch) {
  const Index channel = plan.communications[what.communication].channel;
  if (channel != no_index) return {channel, microbatch};
  // Within a mesh SENDs and RECVs meet in the order of issue, whatever their communications.
  const bool p2p = what.opcode == Opcode::send || what.opcode == Opcode::recv;
  return {without_channel | (p2p ? 0x7fffffffu : what.communication), 0};
}

std::vector<RankPlace> members_of(const Plan& plan, const Group& group, const RankPlace& place) {
  std::vector<std::int32_t> pipeline_ranks = group.pipeline_ranks;
  if (pipeline_ranks.empty()) pipeline_ranks = {place.pipeline_rank};
  std::vector<RankPlace> members;
  const Mesh& own = stage_of(plan, place.pipeline_rank).meshes[group.mesh];
  for (const std::int32_t stage : pipeline_ranks) {
    const Mesh& mesh = stage_of(plan, stage).meshes[group.mesh];
    // Dedicated servers have a mesh of their own, with no other axis than the group's.
    const std::int64_t local = mesh == own ? place.local : 0;
    const std::int64_t count = place_along(mesh, group.axes, local).count;
    for (std::int64_t i = 0; i < count; ++i)
      members.push_back(place_of(plan, stage, moved_along(mesh, group.axes, local, i)));
  }
  return members;
}

bool has_peer(const Communication& communication, const RankPlace& place) {
  const std::vector<std::int64_t>& map = communication.peer.coordinate_map;
  return map.empty() ||
         (std::cmp_less(place.local, map.size()) && map[static_cast<std::size_t>(place.local)] >= 0);
}

RankPlace peer_of(const Plan& plan, const Communication& communication, const RankPlace& place) {
  const Peer& peer = communication.peer;
  if (!peer.coordinate_map.empty())
    return place_of(plan, peer.pipeline_rank, peer.coordinate_map[static_cast<std::size_t>(place.local)]);
  if (peer.pipeline_rank >= 0) return place_of(plan, peer.pipeline_rank, place.local);
  const Mesh& mesh = stage_of(plan, place.pipeline_rank).meshes[communication.group.mesh];
  const AxesPlace own = place_along(mesh, peer.axes, place.local);
  const std::int64_t index = ((own.index + peer.offset) % own.count + own.count) % own.count;
  return place_of(plan, place.pipeline_rank, moved_along(mesh, peer.axes, place.local, index));
}

}  // namespace simrun
