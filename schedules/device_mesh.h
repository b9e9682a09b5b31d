#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

using AxisId = std::uint8_t;  // index into Mesh::axes

// How the ranks of one pipeline rank are divided, twice over the same devices: dense layers by tp x cp x dp,
// expert layers by etp x ep x edp, the first of each fastest (Megatron-LM's rank order). cp_inner,
// ep_inner and dp_inner cut the context-, expert- and data-parallel ranks once more, into neighbours and the
// rest.
struct MeshShape {
  std::int64_t tp = 1, cp = 1, dp = 1;
  std::int64_t etp = 1, ep = 1;
  std::int64_t cp_inner = 1;   // Ulysses' share of a hybrid context-parallel group
  std::int64_t ep_inner = 0;   // ranks of ep on one node (deepep); 0: ep is not cut
  std::int64_t dp_inner = 1;   // ranks of dp that shard with one another (hybrid sharding)
  std::vector<Axis> own = {};  // a user's axes over the same devices, the first fastest; none: none
  std::vector<std::int64_t> counts = {};  // groups of so many neighbouring ranks: axes "8 ranks"
};
MeshShape mesh_shape(const Job& job);

// Groups of data-parallel ranks that keep equal shards (hybrid sharding), or nodes that a hierarchical
// all-reduce goes between; 1: dp is not cut.
std::int64_t data_parallel_replicas(const Job& job);

// The coarsest mesh on whose axes all these divisions lie: an axis of it ends wherever one of theirs does. A
// rule names logical axes (tp, cp, dp, etp, ep, edp, cp_inner, cp_outer, ep_inner, ep_outer, dp_inner,
// dp_outer); each is a list of mesh axes, the outermost first, so that layouts over different divisions
// compare, and collectives between dense and expert layers follow like any others.
struct DeviceMesh {
  Mesh mesh;
  std::map<std::string, std::vector<AxisId>> logical;
  std::vector<char> kind;  // by mesh axis: 't', 'c' or 'd': the dense axis that it is part of

  // Axes with more than one rank; empty for a name that the mesh does not have.
  std::vector<AxisId> axes(const std::string& name) const;
  bool has(const std::string& name) const { return logical.count(name) > 0; }
  std::int64_t size(const std::vector<AxisId>& axes) const;
  // "dp x ep" for a list of axes: as few names as they have.
  std::string words(const std::vector<AxisId>& axes) const;
  // "dp1,dp0": the mesh's own names, as Buffer::split has them.
  std::string names(const std::vector<AxisId>& axes) const;
};

// Throws std::invalid_argument where the divisions have no common refinement (tp 3 beside ep 2).
DeviceMesh device_mesh(const MeshShape& shape);

// The logical axis of a group of so many neighbouring ranks.
std::string axis_of_ranks(std::int64_t count);

}  // namespace simrun
