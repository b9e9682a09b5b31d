#pragma once

#include <vector>

#include "configs/job.h"
#include "schedules/chunk_code.h"
#include "schedules/partition.h"
#include "schedules/unlike_stages.h"

namespace simrun {

// A job's model as code, stage by stage, before anybody decides which rank runs what when.
struct LoweredModel {
  Graph graph;
  std::vector<DeviceMesh> meshes;           // by stage; one for all that are alike
  std::vector<MeshBorder> borders;          // border b lies between stages b and b + 1
  std::vector<BorderChunks> border_chunks;  // by border
  std::vector<ExtentTable> tables;          // that steps name
  Partition partition;
  std::vector<ChunkCode> stages;     // the same on every rank that holds the stage
  std::vector<Layout> layouts = {};  // by operator
  const DeviceMesh& mesh(std::size_t stage) const { return mesh_of_stage(meshes, stage); }
};

// Throws what layouts_of() throws.
LoweredModel lower_model(const Job& job);

}  // namespace simrun
