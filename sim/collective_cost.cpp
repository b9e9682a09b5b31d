#include "sim/collective_cost.h"

#include <algorithm>

#include "sim/exchange_costs.h"

namespace simrun {

static double bytes_of_all(const Plan& plan, const std::vector<Index>& buffers) {
  double bytes = 0;
  for (const Index index : buffers) {
    const Buffer& buffer = plan.buffers[index];
    bytes += static_cast<double>(buffer.stored_bytes());
  }
  return bytes;
}

double communicated_bytes(const Plan& plan, const Instruction& instruction) {
  if (has_servers(instruction.opcode)) {
    // Workers name the whole buffer, dedicated servers their part.
    const bool pushes = instruction.opcode == Opcode::push;
    const std::vector<Index>& whole = pushes ? instruction.inputs : instruction.outputs;
    const auto servers =
        static_cast<double>(plan.communications.at(instruction.communication).servers.members.size());
    return whole.empty() ? servers * bytes_of_all(plan, pushes ? instruction.outputs : instruction.inputs)
                         : bytes_of_all(plan, whole);
  }
  const bool by_output = instruction.opcode == Opcode::all_gather || instruction.opcode == Opcode::recv ||
                         instruction.opcode == Opcode::broadcast;
  const double sent = bytes_of_all(plan, by_output ? instruction.outputs : instruction.inputs);
  // Uneven experts: a rank may receive more than it sends.
  if (instruction.opcode == Opcode::all_to_all)
    return std::max(sent, bytes_of_all(plan, instruction.outputs));
  return sent;
}

Picoseconds communication_time(const Plan& plan, std::int32_t pipeline_rank, const Instruction& instruction) {
  const Topology topology(plan.cluster);
  ExchangeCosts costs(topology, plan, pipeline_rank, instruction.opcode,
                      plan.communications.at(instruction.communication));
  return costs.together(communicated_bytes(plan, instruction));
}

}  // namespace simrun
