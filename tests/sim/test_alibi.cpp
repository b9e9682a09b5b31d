#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "sim/attention_cost.h"
#include "sim/kernel_cost.h"
#include "tests/jobs.h"

// What ALiBi's bias costs: MPT with it, and with learned positions in its place.
namespace simrun {
namespace {

// 27 heads of 64: with 2,048 tokens 27 x 16 blocks of 128 query rows, four whole waves on an A100's 108 SMs.
Plan mpt(bool alibi, const std::string& attention) {
  return compile(job_from(
      "simrun: 1\nmodel: {model_type: mpt, n_layers: 2, d_model: 1728, n_heads: 27, vocab_size: 50368, "
      "max_seq_len: 2048, attn_config: {alibi: " +
      std::string(alibi ? "true" : "false") +
      "}}\n"
      "training: {seq_length: 2048, micro_batch_size: 1, global_batch_size: 1, precision: bf16, attention: " +
      attention + "}\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: 1}\n"));
}

const Instruction& attention_of(const Plan& plan, Opcode opcode) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.opcode == opcode) return what;
  FAIL("no attention");
  return plan.segments.front().instructions.front();
}

double added_picoseconds(const std::string& attention, Opcode opcode) {
  const Plan with = mpt(true, attention), without = mpt(false, attention);
  CHECK(lint(with).empty());
  const Instruction& what = attention_of(with, opcode);
  CHECK(what.alibi);
  CHECK_FALSE(attention_of(without, opcode).alibi);
  return static_cast<double>(kernel_time(with, what) - kernel_time(without, attention_of(without, opcode)));
}

TEST_CASE("ALiBi in a flash kernel: one multiply-add outside the tensor cores for each computed score") {
  // 2 x 27 x 2048^2 / 2 = 113,246,208 FLOPs at 19.5 TFLOP/s are 5.8075 us, forward and again backward.
  for (const Opcode opcode : {Opcode::attention, Opcode::attention_backward})
    CHECK(added_picoseconds("flash", opcode) == Approx(113'246'208 / 19.5).margin(1));
}

TEST_CASE("ALiBi by itself: one kernel that reads and writes every score, and none backward") {
  const Plan plan = mpt(true, "unfused");
  const Gpu& gpu = plan.cluster.gpu;
  // 27 x 2048^2 scores in bf16, read and written: 452,984,832 bytes and a launch.
  const double seconds = 452'984'832.0 / (gpu.memory_bandwidth * gpu.memory_efficiency) + gpu.kernel_launch_s;
  CHECK(added_picoseconds("unfused", Opcode::attention) == Approx(seconds * 1e12).margin(1));
  CHECK(added_picoseconds("unfused", Opcode::attention_backward) == 0);
  const double bytes = kernel_work(plan, attention_of(plan, Opcode::attention)).bytes;
  const Plan without = mpt(false, "unfused");
  CHECK(bytes - kernel_work(without, attention_of(without, Opcode::attention)).bytes == 452'984'832);
}

TEST_CASE("ALiBi: BLOOM and MPT have it, and it is no FLOP of a matrix product") {
  for (const char* preset : {"bloom-7b1", "mpt-7b"}) {
    const Plan plan = compile(job_from(
        "simrun: 1\nmodel: {from: models/" + std::string(preset) +
        ".yaml}\ntraining: {seq_length: 2048, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
        "cluster: {from: dgx_a100, nodes: 1}\n"));
    CHECK(attention_of(plan, Opcode::attention).alibi);
  }
  CHECK(mpt(true, "flash").job.model_flops_per_step == mpt(false, "flash").job.model_flops_per_step);
  CHECK(mpt(true, "flash").job.hardware_flops_per_step == mpt(false, "flash").job.hardware_flops_per_step);
}

}  // namespace
}  // namespace simrun
