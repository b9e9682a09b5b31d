#pragma once

#include <cstdint>
#include <vector>

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/layout.h"

namespace simrun {

// An activation on its way over a border, and the operator that reads it first behind it, as which input.
struct Crossing {
  TensorId tensor = 0;
  std::size_t reader = 0;
  std::size_t input = 0;
};

// Which virtual stage each operator lies on, and the tensors that cross each border.
struct Partition {
  std::vector<std::int32_t> stage_of;               // by operator
  std::vector<std::int32_t> first_layer;            // by stage
  std::vector<std::vector<std::size_t>> operators;  // by stage, in graph order
  // [s]: from stage s to s + 1, by tensor. One that a later stage reads (an encoder's output) crosses every
  // border up to it: the stages between receive it, keep it if they read it too, and send it on.
  std::vector<std::vector<Crossing>> borders;
  TensorId tied_tensor = 0xffffffffu;     // a parameter that several stages hold
  std::vector<std::int32_t> tied_stages;  // those, ascending
};

// Throws std::invalid_argument if a stage is empty or no activation crosses a border.
Partition partition(const Graph& graph, const std::vector<StageContent>& stages);

}  // namespace simrun
