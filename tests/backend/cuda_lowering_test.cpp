#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "backend/agreement.h"
#include "backend/half_float.h"
#include "models/philox.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/cuda/cuda_host_device.h"

// The CUDA device's kernels, run on the host, compute what the CPU device does.
namespace simrun {
namespace {

struct HowToRun {
  HostNumbers numbers = HostNumbers::f64;
  int lanes = 1;
  const cuda::NcclTable* nccl = nullptr;
};

Execution run_kernels(const Plan& plan, const HowToRun& how = {}) {
  REQUIRE(lint(plan) == std::vector<std::string>{});
  const std::unique_ptr<Device> asked = make_cuda_host_device(how.numbers);
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) REQUIRE(asked->refusal(plan, what) == "");
  ExecuteOptions options;
  options.steps = 2;
  return execute_on(plan, options,
                    [&](std::int64_t) { return make_cuda_host_device(how.numbers, how.lanes, how.nccl); });
}

// A product is one kernel or more, each of which that device's clock counts as a microsecond.
void check_products_are_timed(const Plan& plan, const Measurement& measured) {
  for (std::size_t rank = 0; rank < measured.ranks.size(); ++rank) {
    const RankPlace place = ranks_of(plan)[rank];
    const Program& program = plan.programs[static_cast<std::size_t>(place.pipeline_rank)];
    for (const MeasuredInstruction& of : measured.ranks[rank].at(1).instructions) {
      const Segment& segment = plan.segments[program.entries[of.entry].segment];
      if (segment.instructions[of.instruction].opcode != Opcode::gemm) continue;
      CHECK(of.busy_ns >= 1000);
      CHECK(of.busy_ns % 1000 == 0);
    }
  }
}

void check_kernels(const TinyJob& job, const HowToRun& how = {}) {
  CAPTURE(job.model, job.parallelism, job.optimizer, job.training, job.more, job.gpus);
  const Execution run = run_kernels(compile(tiny_job(job)), how);
  CHECK(run.failure == "");
  check_equal(run, one_rank(job), how.numbers == HostNumbers::f64 ? 1e-10 : 1e-4);
}

const std::vector<TinyJob>& jobs_of_many_ranks() {
  static const std::vector<TinyJob> jobs{
      {.parallelism =
           "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, sequence_parallel: true}",
       .optimizer = "{zero_stage: 1}",
       .gpus = 8},
      {.model = tiny_llama,
       .parallelism = "{tensor_model_parallel_size: 2}",
       .optimizer = "{zero_stage: 3}",
       .gpus = 4},
      {.model = tiny_llama,
       .parallelism = "{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}",
       .optimizer = "{zero_stage: 2}",
       .gpus = 4},
      {.parallelism = "{pipeline_model_parallel_size: 2, pipeline_schedule: dualpipe}", .gpus = 2}};
  return jobs;
}

const char* const dropping_gpt =
    "model: {model_type: gpt, num_layers: 2, hidden_size: 24, num_attention_heads: 4, ffn_hidden_size: 40, "
    "vocab_size: 50, max_position_embeddings: 12, hidden_dropout: 0.2, attention_dropout: 0.1}\n";
const char* const one_layer =
    "model: {model_type: llama, num_hidden_layers: 1, hidden_size: 24, intermediate_size: 40, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 12}\n";

}  // namespace

TEST_CASE("ranks that share a GPU are timed by its clock and compute the same") {
  const TinyJob& job = jobs_of_many_ranks().front();
  const Plan plan = compile(tiny_job(job));
  ExecuteOptions options;
  options.device = ExecutionDevice::cuda_f64;
  options.steps = 2;
  options.timed = true;
  const Execution run =
      execute_on(plan, options, [](std::int64_t) { return make_cuda_host_device(HostNumbers::f64); });
  CHECK(run.failure == "");
  check_equal(run, one_rank(job), 1e-10);
  REQUIRE(run.measured.ranks.size() == 8);
  CHECK(run.measured.unit == "GPU");
  check_products_are_timed(plan, run.measured);
}

TEST_CASE("the CUDA device's kernels compute what the CPU does, on one rank and on many") {
  check_kernels({.model = tiny_gpt});
  check_kernels({.model = tiny_llama});
  for (const TinyJob& job : jobs_of_many_ranks()) check_kernels(job);
}

TEST_CASE("the CUDA device's kernels compute the same in float, to 1e-4") {
  check_kernels(jobs_of_many_ranks().front(), {.numbers = HostNumbers::f32});
}

TEST_CASE("the CUDA device draws the dropout that the CPU draws, flash and unfused, with recomputation") {
  for (const char* training : {"", ", attention: unfused"})
    check_kernels({.model = dropping_gpt,
                   .parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}",
                   .training = training,
                   .more = "recompute: {granularity: selective}\n",
                   .gpus = 4});
}

TEST_CASE("lanes that share a row compute what one lane does") {
  check_kernels({.model = one_layer, .micro_batch_size = 4}, {.lanes = 3});
}

TEST_CASE(
    "in bf16, attention by matrix products included, the CUDA device's kernels stay within 5 % of f64") {
  for (const char* model : {tiny_gpt, tiny_llama}) {
    TinyJob of{
        model, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}", "{zero_stage: 1}", "", "",
        8};
    Job job = tiny_job(of);
    job.training.precision = Dtype::bf16;
    const Execution run = run_kernels(compile(job), {.numbers = HostNumbers::by_dtype});
    REQUIRE(run.failure == "");
    const Agreement agreed = agreement(run, one_rank(of), tolerance_of(ExecutionDevice::cuda_half));
    CHECK(agreed.fault == "");
    CHECK(agreed.gradients.error > 1e-4);  // it is rounded
  }
}

TEST_CASE("communication through NCCL's functions gives what messages give") {
  for (const TinyJob& job : jobs_of_many_ranks()) check_kernels(job, {.nccl = &threads_nccl()});
  check_kernels({.parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}", .gpus = 4},
                {.nccl = &threads_nccl()});
}

TEST_CASE("what NCCL says of a failure is told with rank, instruction and partners") {
  static cuda::NcclTable failing = threads_nccl();
  failing.all_reduce = [](const void*, void*, std::size_t, int, int, void*, void*) { return 2; };
  const Execution run = run_kernels(compile(tiny_job({.gpus = 2})), {.nccl = &failing});
  CAPTURE(run.failure);
  CHECK(run.failure.find("rank ") == 0);
  CHECK(run.failure.find("NCCL: unhandled system error (2)") != std::string::npos);
  CHECK(run.failure.find("all_reduce") != std::string::npos);
  CHECK(run.failure.find("with ranks 0, 1") != std::string::npos);
}

TEST_CASE("what the CUDA device has no kernel for is refused by the key that asks for it") {
  const auto refusals = [](const std::string& preset, const std::vector<Override>& overrides) {
    const Plan plan = compile(job_from(preset, overrides));
    const std::unique_ptr<Device> device = make_cuda_host_device(HostNumbers::by_dtype);
    std::set<std::string> all;
    for (const Segment& segment : plan.segments)
      for (const Instruction& what : segment.instructions) all.insert(device->refusal(plan, what));
    return all;
  };
  const std::set<std::string> ring = refusals(
      small_gpt(2, 1, 1, 1), {{"parallelism.context_parallel_size", "2"}, {"training.attention", "flash"}});
  CHECK(ring.count("has no CUDA kernel yet: parallelism.context_parallel_size") == 1);
  const std::set<std::string> half = refusals(small_gpt(2, 1, 1, 1), {{"training.precision", "fp16"}});
  CHECK(half.count("has no CUDA kernel yet: training.precision: fp16 beside bf16 and fp32") == 1);
}

TEST_CASE("the kernels' rounding to bf16 is the CPU's") {
  const RandomStream random(3, "bits", 0);
  for (std::int64_t i = 0; i < 200'000; ++i) {
    const std::uint32_t bits = random.word(i);
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    if (cuda::bf16_bits(x) != bf16_bits(x) && !std::isnan(x)) FAIL(bits);
  }
  CHECK(cuda::bf16_bits(1.0f + 0x1p-8f) == 0x3f80);  // a tie: 0x3f80 is even
  CHECK(std::isnan(cuda::from_bf16(cuda::bf16_bits(std::numeric_limits<float>::signaling_NaN()))));
}

}  // namespace simrun
