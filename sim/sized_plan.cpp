#include "sim/sized_plan.h"

namespace simrun {

Plan priced_plan(const Plan& plan, const Gpu& gpu) {
  Plan priced;
  priced.job = plan.job;
  priced.cluster = plan.cluster;
  priced.cluster.gpu = gpu;
  priced.framework = plan.framework;
  priced.dimension_names = plan.dimension_names;
  priced.dimension_sizes = plan.dimension_sizes;
  priced.streams = plan.streams;
  priced.stages = plan.stages;
  priced.chunks = plan.chunks;
  priced.extent_tables = plan.extent_tables;
  priced.buffers = plan.buffers;
  priced.communications = plan.communications;
  return priced;
}

SizedPlan::SizedPlan(const Plan& plan) : plan_(plan) {
  if (plan.extent_tables.empty()) return;
  sized_.job = plan.job;
  sized_.cluster = plan.cluster;
  sized_.framework = plan.framework;
  sized_.dimension_names = plan.dimension_names;
  sized_.streams = plan.streams;
  sized_.stages = plan.stages;
  sized_.chunks = plan.chunks;
  sized_.extent_tables = plan.extent_tables;
  sized_.buffers = plan.buffers;
  sized_.communications = plan.communications;
}

const Plan& SizedPlan::at(const TablePlace& place, const Instruction& instruction) {
  if (plan_.extent_tables.empty()) return plan_;
  for (const auto* list : {&instruction.inputs, &instruction.outputs})
    for (const Index buffer : *list) {
      const std::vector<BufferDim>& dims = plan_.buffers[buffer].dims;
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (dims[d].table >= 0) sized_.buffers[buffer].dims[d].extent = extent_at(plan_, dims[d], place);
    }
  return sized_;
}

}  // namespace simrun
