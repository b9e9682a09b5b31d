#pragma once

#include <vector>

#include "configs/job.h"
#include "schedules/chunk_code.h"
#include "schedules/partition.h"

namespace simrun {

// A job's model as code, stage by stage, before anybody decides which rank runs what when.
struct LoweredModel {
  Graph graph;
  DeviceMesh mesh;
  std::vector<ExtentTable> tables;  // that steps name
  Partition partition;
  std::vector<ChunkCode> stages;     // the same on every rank that holds the stage
  std::vector<Layout> layouts = {};  // by operator
};

// Throws what layouts_of() throws.
LoweredModel lower_model(const Job& job);

}  // namespace simrun
