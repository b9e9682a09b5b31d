#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/kernel_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Job one_gpu_job(const std::string& model, const std::string& more = "") {
  return job_from(
      "simrun: 1\nmodel: " + model +
      "\ntraining: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 4, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1}\n" +
      more);
}

// The first instruction with the label in a forward or a backward pass.
const Instruction& labelled(const Plan& plan, const std::string& label, Opcode opcode) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions)
      if (instruction.label == label && instruction.opcode == opcode) return instruction;
  throw std::logic_error("no instruction " + label);
}

const char* const lite = "{from: deepseek-v2-lite, num_hidden_layers: 2}";

TEST_CASE("latent attention's kernels: flash skips half of the scores, backward computes them once more") {
  const Plan plan = compile(one_gpu_job(lite));
  const Instruction& forward = labelled(plan, "core_attention", Opcode::attention);
  const Instruction& backward = labelled(plan, "core_attention", Opcode::attention_backward);
  // 2 x 16 heads x 1024 x 1024 scores, of which a causal mask leaves half.
  const double scores = 16.0 * 1024 * 1024;
  CHECK(kernel_work(plan, forward).flops == scores * (192 + 128));
  CHECK(kernel_work(plan, backward).flops == scores * (3 * 192 + 2 * 128));
  CHECK(instruction_flops(plan, forward) == 2 * scores * (192 + 128));
  CHECK(instruction_flops(plan, backward) == 4 * scores * (192 + 128));
  // q, k of 192 and v, context of 128 elements per head and token, 2 bytes, and 4 bytes of log-sum-exp.
  CHECK(kernel_work(plan, forward).bytes == 1024.0 * 16 * ((2 * 192 + 2 * 128) * 2 + 4));
  const Plan unfused = compile(job_from(
      "simrun: 1\nmodel: " + std::string(lite) +
      "\ntraining: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 4, precision: bf16, attention: "
      "unfused}\ncluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1}\n"));
  CHECK(kernel_work(unfused, labelled(unfused, "core_attention", Opcode::attention_backward)).flops ==
        4 * scores * (192 + 128));
}

TEST_CASE("experts' products are one grouped GEMM, their rows gathered and summed") {
  const Plan plan = compile(one_gpu_job(lite));
  // 1024 tokens x 6 of 64 experts: 96 rows each.
  const GemmShape up = gemm_shape(plan, labelled(plan, "expert_fc1", Opcode::gemm));
  CHECK(up.batch == 64);
  CHECK(up.m == 96);
  CHECK(up.n == 2 * 1408);
  CHECK(up.k == 2048);
  const double rows = 64.0 * 96 * 2048 * 2, tokens = 1024.0 * 2048 * 2, indices = 1024.0 * 6 * 4;
  CHECK(kernel_work(plan, labelled(plan, "dispatch", Opcode::gather)).bytes == 2 * rows + indices);
  CHECK(kernel_work(plan, labelled(plan, "dispatch", Opcode::scatter)).bytes == rows + indices + tokens);
  CHECK(kernel_work(plan, labelled(plan, "combine", Opcode::gather)).bytes == rows + tokens + 2 * indices);
}

TEST_CASE("experts and latent attention run under every recompute module, and its memory falls") {
  const auto peak = [](const std::string& recompute) {
    const Plan plan = compile(one_gpu_job(lite, "recompute: " + recompute + "\n"));
    CHECK(lint(plan).empty());
    return summarize(plan, simulate(plan)).stages.at(0).peak_memory_bytes;
  };
  const auto none = peak("{granularity: none}");
  for (const char* module : {"moe", "moe_act", "shared_experts", "mla_up_proj"})
    CHECK(peak("{granularity: selective, modules: [" + std::string(module) + "]}") < none);
  CHECK(peak("{granularity: full}") < none);
}

TEST_CASE("multi-token prediction is on the loss's stage, which holds a copy of the word embeddings") {
  const Job job = job_from(
      "simrun: 1\nmodel: {from: deepseek-v3, num_hidden_layers: 4, n_routed_experts: 16, "
      "num_nextn_predict_layers: 1}\n"
      "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 4, precision: bf16}\n"
      "parallelism: {pipeline_model_parallel_size: 2}\n"
      "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 2}\n");
  const Plan plan = compile(job);
  CHECK(lint(plan).empty());
  CHECK(summarize(plan, simulate(plan)).step_time_s > 0);
  int losses = 0, tied = 0;
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions) {
      if (segment.kind == PassKind::forward && instruction.label == "mtp_loss") ++losses;
      if (instruction.label == "tied embedding gradients") ++tied;
    }
  CHECK(losses > 0);
  CHECK(tied == 2);
}

}  // namespace
}  // namespace simrun
