#include <catch2/catch.hpp>
#include <string>

#include "models/flops.h"
#include "models/model_graph.h"
#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "sim/scan_cost.h"
#include "tests/sim/scan_jobs.h"

// Two Gated DeltaNet layers of 4 key heads and 8 value heads of 64; 512 tokens in 8 chunks of 64.
namespace simrun {
namespace {

constexpr double delta_tokens = 512, value_heads = 8, width = 64;
// Of a token and value head one row times a state, or a chunk's 64 rows.
constexpr double product_flops = 2 * delta_tokens * value_heads * width * width;

Job delta_job(const std::string& parallelism = "{}", int gpus = 1) {
  return job_of_scans(
      "experimental_attention_variant: gated_delta_net, linear_attention_freq: \"[1,1]\", "
      "linear_num_key_heads: "
      "4, linear_num_value_heads: 8, linear_key_head_dim: 64, linear_value_head_dim: 64, ffn_hidden_size: "
      "2048",
      parallelism, gpus);
}

}  // namespace

TEST_CASE("model FLOPs of Gated DeltaNet are Megatron-LM's: four products of a state and a row per token") {
  const Plan plan = compile(delta_job());
  const double forward = 4 * product_flops;
  CHECK(instruction_flops(plan, scan_in(plan, Opcode::scan)) == forward);
  CHECK(instruction_flops(plan, scan_in(plan, Opcode::scan_backward)) == 2 * forward);
  // q, k of 256, v, z of 512, b and a of 8 in; 512 out; two matrices of the MLP.
  const double parameters = 1024 * (2 * 256 + 2 * 512 + 2 * 8) + 512 * 1024 + 2 * 1024 * 2048;
  CHECK(model_flops(build_graph(delta_job())) ==
        6 * delta_tokens * (2 * parameters + 1024 * 1024) + 2 * 3 * forward);
}

TEST_CASE("kernels of the gated delta rule do the products of its chunks, backward thrice as many and one") {
  const Plan plan = compile(delta_job());
  // K K^T; A K, A V; W S, K^T U; Q S, Q K^T, .. U.
  CHECK(scan_work(plan, scan_in(plan, Opcode::scan)).flops == 8 * product_flops);
  CHECK(scan_work(plan, scan_in(plan, Opcode::scan_backward)).flops == 25 * product_flops);
}

TEST_CASE("tensor- and context-parallel ranks have their key heads' part of the gated delta rule") {
  const Plan whole = compile(delta_job()),
             halves[] = {compile(delta_job("{tensor_model_parallel_size: 2}", 2)),
                         compile(delta_job("{context_parallel_size: 2}", 2))};
  for (const Opcode opcode : {Opcode::scan, Opcode::scan_backward})
    for (const Plan& half : halves) {
      const KernelWork of_whole = scan_work(whole, scan_in(whole, opcode)),
                       of_half = scan_work(half, scan_in(half, opcode));
      CHECK(2 * of_half.flops == of_whole.flops);
      CHECK(2 * of_half.bytes == of_whole.bytes);
    }
}

TEST_CASE("the gated delta rule takes no less than its bytes, its products and its launches") {
  const Plan plan = compile(delta_job());
  const Gpu& gpu = plan.cluster.gpu;
  for (const Opcode opcode : {Opcode::scan, Opcode::scan_backward}) {
    const Instruction& what = scan_in(plan, opcode);
    const KernelWork work = scan_work(plan, what);
    const double seconds = scan_seconds(plan, what);
    CHECK(seconds >= work.bytes / gpu.memory_bandwidth);
    CHECK(seconds >= work.flops / matmul_flops_per_second(gpu, Dtype::bf16));
    CHECK(seconds >= static_cast<double>(scan_launches(plan, what)) * gpu.kernel_launch_s);
    CHECK(kernel_time(plan, what) == to_picoseconds(seconds));
  }
}

// On an H200 the backward pass of FLA 0.5.1 takes 2.31 ms for 4 heads of 128 and 32,768 tokens of one
// sequence, 1.06 ms for those of eight (QwenLM/FlashQLA, benchmark_results_H200.txt).
TEST_CASE("a long sequence of few heads takes as long as its chunks one behind the other") {
  const auto backward_ms = [](const char* sequences) {
    const Plan plan = compile(job_from(
        "simrun: 1\nmodel: {model_type: gpt, num_layers: 1, experimental_attention_variant: gated_delta_net, "
        "linear_attention_freq: \"[1]\", linear_num_key_heads: 2, linear_num_value_heads: 4, hidden_size: "
        "1024, num_attention_heads: 8, vocab_size: 1024, position_embedding_type: none}\ntraining: {" +
        std::string(sequences) +
        ", precision: bf16}\nframework: {kernels: {chunk_step: 1.1 us, chunk_backward_step: 2.5 us}}\n"
        "cluster: {from: dgx_h200, nodes: 1, gpus_per_node: 1}\n"));
    return 1e3 * scan_seconds(plan, scan_in(plan, Opcode::scan_backward));
  };
  const double one = backward_ms("seq_length: 32768, micro_batch_size: 1, global_batch_size: 1"),
               eight = backward_ms("seq_length: 4096, micro_batch_size: 8, global_batch_size: 8");
  CHECK(one > 512 * 3.6e-3);  // chunks of 64 tokens, forward and backward
  CHECK(one < 3.2);           // and convolution, norms and gates besides
  CHECK(eight < 0.6 * one);
}

}  // namespace simrun
