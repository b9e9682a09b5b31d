#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "configs/job.h"
#include "schedules/device_mesh.h"
#include "schedules/layout.h"

// Pipeline ranks of unlike size (Zheng et al. 2022, OSDI, section 5: stages on sub-meshes; Um et al. 2024,
// ATC, Metis): each stage has a tensor- and a data-parallel size of its own. Their meshes have the same axes:
// of sizes d1 | d2 | d3 the prime factors of d1, of d2 / d1 and of d3 / d2, the last of them the innermost,
// of which a stage has as many as make its size and 1 of the others. So a layout over one stage's axes reads
// on any other's, and what two neighbours share is a prefix of both.
namespace simrun {

// The mesh of every pipeline rank; one for all that are alike.
std::vector<DeviceMesh> stage_meshes(const Job& job);
inline const DeviceMesh& mesh_of_stage(const std::vector<DeviceMesh>& meshes, std::size_t stage) {
  return meshes[meshes.size() == 1 ? 0 : stage];
}

// The job with this pipeline rank's sizes as those of all, over the same microbatch.
Job job_of_stage(Job job, std::size_t stage);

// By axis of a mesh the axis of a neighbour's along which its ranks' partners lie; no_axis: only the first
// rank along it has one.
constexpr AxisId no_axis = 255;
using AxisMap = std::vector<AxisId>;

// How the meshes of two neighbours meet: in the axes that both have, and otherwise
// with a data-parallel axis that only one of them has beside the innermost tensor-parallel axis of its size
// of the other, whose ranks then take a part of the batch each. So as many links carry a tensor as both sides
// have, each a part of it, which its ranks gather from each other (Zheng et al. 2022, section 6, "local
// all-gather"). Along what axes are left the first rank exchanges, and broadcasts to the rest.
struct MeshBorder {
  AxisMap behind_of_before, before_of_behind;
};
MeshBorder border_between(const DeviceMesh& before, const DeviceMesh& behind);
// The same in common axes alone.
MeshBorder border_of_common_axes(const DeviceMesh& before, const DeviceMesh& behind);

// In how many chunks what is broadcast behind a border goes over it: activations and gradients. The broadcast
// of one chunk runs beside the transfer of the next (Zhuang et al. 2023, MLSys, "On optimizing the
// communication of model parallelism", arXiv 2211.05322: chunked broadcast).
struct BorderChunks {
  std::int64_t activations = 1, gradients = 1;
};
// What crosses a border towards a stage: bytes per rank that sends, and the axes along which only the first
// rank receives them.
struct BorderTransfer {
  std::size_t from_stage = 0, to_stage = 0;
  std::int64_t bytes = 0, elements = 0;  // of all tensors; of the smallest
  std::vector<AxisId> alone = {};
};
// As the job says, or else the number with which the last chunk is there first when chunks pass the border
// and the broadcast like two machines in a row; never more than elements.
std::int64_t broadcast_chunks(const Job& job, const DeviceMesh& to, const BorderTransfer& transfer);

// A layout in terms of the neighbour's mesh, without the axes that have no partners there.
Layout layout_across(Layout layout, const AxisMap& across);

// Axes along which only the first rank exchanges with the neighbour, the outermost first.
std::vector<AxisId> axes_alone(const DeviceMesh& mesh, const AxisMap& across);

// By place on one mesh the place on the other that it exchanges with, or -1; empty: the same place.
std::vector<std::int64_t> partner_places(const Mesh& mesh, const Mesh& other, const AxisMap& across);

}  // namespace simrun
