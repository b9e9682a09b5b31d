#include "sim/collective_cost.h"

#include "sim/exchange_costs.h"

namespace simrun {

double communicated_bytes(const Plan& plan, const Instruction& instruction) {
  const bool by_output = instruction.opcode == Opcode::all_gather || instruction.opcode == Opcode::recv ||
                         instruction.opcode == Opcode::broadcast;
  double bytes = 0;
  for (const Index index : by_output ? instruction.outputs : instruction.inputs) {
    const Buffer& buffer = plan.buffers[index];
    bytes += static_cast<double>(buffer.elements() * bytes_of(buffer.dtype));
  }
  return bytes;
}

Picoseconds communication_time(const Plan& plan, std::int32_t pipeline_rank, const Instruction& instruction) {
  const Topology topology(plan.cluster);
  ExchangeCosts costs(topology, plan, pipeline_rank, instruction.opcode,
                      plan.communications.at(instruction.communication));
  return costs.together(communicated_bytes(plan, instruction));
}

}  // namespace simrun
