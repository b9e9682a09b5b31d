#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// Two stages of one layer, two ranks each. Activations: 2 sequences of 8 tokens of 16 elements.
Plan plan_with(const std::string& written, const std::string& read) {
  return compile(job_from(
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 2, hidden_size: 16, num_attention_heads: 4, vocab_size: 128,\n"
      "  max_position_embeddings: 8, attention_dropout: 0, hidden_dropout: 0}\n"
      "training: {seq_length: 8, micro_batch_size: 2, global_batch_size: 8, precision: fp32}\n"
      "parallelism: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n"
      "layout:\n"
      "  - {scope: \"layers[0].mlp_add\", " +
      written +
      "}\n"
      "  - {scope: \"layers[1].input_norm\", " +
      read + "}\n"));
}

// Elements that each rank sends over the border: activations, then gradients.
std::vector<std::int64_t> sent(const Plan& plan) {
  std::vector<std::int64_t> elements;
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions)
      if (instruction.opcode == Opcode::send)
        elements.push_back(plan.buffers[instruction.inputs.front()].elements());
  return elements;
}

constexpr std::int64_t whole = 2 * 8 * 16;
const std::string split = "split: {sequence: tp}", together = "replicate: [sequence]";

}  // namespace

TEST_CASE("what crosses a border does so in the smaller of the parts that are written and read") {
  using Elements = std::vector<std::int64_t>;
  CHECK(sent(plan_with(split, split)) == Elements{whole / 2, whole / 2});
  CHECK(sent(plan_with(split, together)) == Elements{whole / 2, whole / 2});  // gathered behind the border
  CHECK(sent(plan_with(together, split)) == Elements{whole / 2, whole / 2});  // cut before it
  CHECK(sent(plan_with(together, together)) == Elements{whole, whole});
}

}  // namespace simrun
