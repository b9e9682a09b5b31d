#pragma once

#include <cstdint>
#include <vector>

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/layout.h"

namespace simrun {

// Which virtual stage each operator lies on, and the tensor that crosses each border.
struct Partition {
  std::vector<std::int32_t> stage_of;               // by operator
  std::vector<std::int32_t> first_layer;            // by stage
  std::vector<std::vector<std::size_t>> operators;  // by stage, in graph order
  std::vector<TensorId> border;                     // [s]: activation from stage s to s + 1
  std::vector<std::size_t> border_reader;           // [s]: the operator of stage s + 1 that reads it first
  std::vector<std::size_t> border_reader_input;     // ... as which input
  TensorId tied_tensor = 0xffffffffu;               // a parameter that two stages hold
};

// Throws std::invalid_argument if a stage is empty or anything but one activation crosses a border.
Partition partition(const Graph& graph, const std::vector<StageContent>& stages);

}  // namespace simrun
