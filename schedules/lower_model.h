#pragma once

#include <vector>

#include "configs/job.h"
#include "schedules/backward_split.h"
#include "schedules/chunk_code.h"
#include "schedules/partition.h"

namespace simrun {

// A stage's code, the same on every rank that holds the stage.
struct StageCode {
  ChunkCode code;
  BackwardSplit split;
};

// A job's model as code, stage by stage, before anybody decides which rank runs what when.
struct LoweredModel {
  Graph graph;
  DeviceMesh mesh;
  std::vector<ExtentTable> tables;  // that steps name
  Partition partition;
  std::vector<StageCode> stages;
  std::vector<Layout> layouts = {};  // by operator
};

// Throws std::invalid_argument where a layout does not divide.
LoweredModel lower_model(const Job& job);

}  // namespace simrun
