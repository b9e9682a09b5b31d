#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan.h"

// Who exchanges with whom, by device number (device d is GPU d % gpus_per_node of node d / gpus_per_node). A
// stage's devices count from 0 in the order of its ranges: that is a device's local index, and its mesh
// coordinates follow from it.
namespace simrun {

std::int64_t device_count(const Plan& plan, std::int32_t pipeline_rank);

// The device with this local index, which must be in [0, device_count).
std::int64_t device_at(const Plan& plan, std::int32_t pipeline_rank, std::int64_t local_index);

// The local index of one of its devices; no_index of any other.
Index local_index(const Plan& plan, std::int32_t pipeline_rank, std::int64_t device);

// The devices, ascending, of every instance of a group, over all its pipeline ranks: all that differ only in
// the group's axes. Instances are ordered by the coordinates outside the group. Every device of these stages
// is in exactly one of them.
std::vector<std::vector<std::int64_t>> group_instances(const Plan& plan, std::int32_t pipeline_rank,
                                                       const Group& group);

// By local index on this pipeline rank: which of group_instances() the device is in.
std::vector<Index> instance_of_devices(const Plan& plan, std::int32_t pipeline_rank, const Group& group);

// Of a one-sided PUSH or PULL, by local index on this pipeline rank: the device, and the servers that it
// exchanges with.
std::vector<std::vector<std::int64_t>> one_sided_members(const Plan& plan, std::int32_t pipeline_rank,
                                                         const Communication& communication);

// Device number of the other end of a SEND or RECV, or -1 where there is none: beyond the end of an axis, or
// of the other stage.
std::int64_t peer_of(const Plan& plan, std::int32_t pipeline_rank, const Communication& communication,
                     std::int64_t local_index);

}  // namespace simrun
