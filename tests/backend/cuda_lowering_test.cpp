#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/cuda_host_device.h"

// The CUDA device's kernels, run on the host, compute what the CPU device does.
namespace simrun {
namespace {

Execution run_kernels(const Plan& plan, HostNumbers numbers, int lanes = 1) {
  REQUIRE(lint(plan) == std::vector<std::string>{});
  const std::unique_ptr<Device> asked = make_cuda_host_device(numbers);
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) REQUIRE(asked->refusal(plan, what) == "");
  ExecuteOptions options;
  options.steps = 2;
  Execution execution =
      execute_on(plan, options, [&](std::int64_t) { return make_cuda_host_device(numbers, lanes); });
  CHECK(execution.failure == "");
  return execution;
}

void check_kernels(const TinyJob& job, HostNumbers numbers = HostNumbers::f64, double tolerance = 1e-10) {
  CAPTURE(job.model, job.parallelism, job.optimizer, job.training, job.more, job.gpus);
  check_equal(run_kernels(compile(tiny_job(job)), numbers), one_rank(job), tolerance);
}

}  // namespace

TEST_CASE("the CUDA device's kernels compute what the CPU does, on one rank and on many") {
  for (const char* model : {tiny_gpt, tiny_llama}) {
    check_kernels({.model = model});
    check_kernels({.model = model,
                   .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                                  "sequence_parallel: true}",
                   .optimizer = "{zero_stage: 1}",
                   .gpus = 8});
    check_kernels({.model = model, .optimizer = "{zero_stage: 3}", .gpus = 4});
  }
}

}  // namespace simrun
