#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "configs/job.h"
#include "schedules/device_mesh.h"
#include "schedules/layout.h"

// Pipeline ranks of unlike size (Zheng et al. 2022, OSDI, section 5: stages on sub-meshes; Um et al. 2024,
// ATC, Metis): each stage has a tensor- and a data-parallel size of its own. Their meshes have the same axes:
// of sizes d1 | d2 | d3 the factors d1, d2 / d1 and d3 / d2, the last of them the innermost, of which a stage
// has as many as make its size and 1 of the others. So a layout over one stage's axes reads on any other's,
// and what two neighbours share is a prefix of both.
namespace simrun {

// The mesh of every pipeline rank; one for all that are alike.
std::vector<DeviceMesh> stage_meshes(const Job& job);
inline const DeviceMesh& mesh_of_stage(const std::vector<DeviceMesh>& meshes, std::size_t stage) {
  return meshes[meshes.size() == 1 ? 0 : stage];
}

// The job with this pipeline rank's sizes as those of all, over the same microbatch.
Job job_of_stage(Job job, std::size_t stage);

// The part of a layout that both meshes have: without the axes that only one of them has.
Layout common_layout(Layout layout, const DeviceMesh& one, const DeviceMesh& other);

// Axes that `other` lacks, the outermost first: of the ranks along them only the first sends to and receives
// from the other mesh, and broadcasts what it received to the rest.
std::vector<AxisId> axes_beyond(const DeviceMesh& mesh, const DeviceMesh& other);

// By place on one mesh the place on the other that it exchanges with, or -1; empty: the same place.
std::vector<std::int64_t> partner_places(const Mesh& mesh, const Mesh& other);

}  // namespace simrun
