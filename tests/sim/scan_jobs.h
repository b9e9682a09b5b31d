#pragma once

#include <stdexcept>
#include <string>

#include "schedules/plan.h"
#include "tests/jobs.h"

namespace simrun {

// Two layers of a model 1,024 wide with 512 tokens in bf16, `keys` of which say what scans they have.
inline Job job_of_scans(const std::string& keys, const std::string& parallelism, int gpus) {
  return job_from(
      "simrun: 1\nmodel: {model_type: gpt, num_layers: 2, hidden_size: 1024, num_attention_heads: 8, "
      "vocab_size: 1024, disable_bias_linear: true, untie_embeddings_and_output_weights: true, "
      "position_embedding_type: none, " +
      keys +
      "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 1, precision: bf16}\n"
      "parallelism: " +
      parallelism + "\ncluster: {from: dgx_h100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n");
}

// The first of its opcode. Throws std::logic_error if there is none.
inline const Instruction& scan_in(const Plan& plan, Opcode opcode) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions)
      if (instruction.opcode == opcode) return instruction;
  throw std::logic_error("no scan");
}

}  // namespace simrun
