#include "sim/collective_cost.h"

#include <algorithm>
#include <string>

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

// Of what all tensor-parallel ranks have in full, Megatron-LM's stages send each a part, and gather the parts
// in the node of the receiver (Narayanan et al. 2021, arXiv 2104.04473, section 4.1); the gather's time is
// left out.
static double share_of_transfer(const Plan& plan, const Instruction& instruction) {
  const bool is_transfer = instruction.opcode == Opcode::send || instruction.opcode == Opcode::recv;
  const FrameworkKernels& framework = plan.framework.kernels;
  if (!is_transfer || !framework.blocking_pipeline || framework.whole_pipeline_transfers ||
      plan.streams.at(instruction.stream).traffic != Traffic::pipeline ||
      !plan.communications.at(instruction.communication).peer.coordinate_map.empty())
    return 1;
  for (const std::vector<Index>* list : {&instruction.inputs, &instruction.outputs})
    for (const Index index : *list)
      for (const std::string& axes : plan.buffers[index].split)
        if (axes.find("tp") != std::string::npos) return 1;
  return 1 / static_cast<double>(std::max<std::int64_t>(plan.job.tensor_parallel, 1));
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
  return sent * share_of_transfer(plan, instruction);
}

Picoseconds communication_time(const Plan& plan, std::int32_t pipeline_rank, const Instruction& instruction) {
  const Topology topology(plan.cluster);
  ExchangeCosts costs(topology, plan, pipeline_rank, instruction.opcode,
                      plan.communications.at(instruction.communication));
  return costs.together(communicated_bytes(plan, instruction));
}

}  // namespace simrun
