#include <catch2/catch.hpp>

#include "backend/execute.h"
#include "backend/measured_timeline.h"
#include "backend/plugin.h"
#include "backend/plugin_device.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"

// What needs a GPU. Without one every case says so and does nothing; ctest calls that skipped.
namespace simrun {
namespace {

bool has_gpu() {
  const std::string why = why_no_cuda_device();
  if (!why.empty()) WARN("skipped: " << why);
  return why.empty();
}

const TinyJob eight_ranks{
    .parallelism =
        "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, sequence_parallel: true}",
    .optimizer = "{zero_stage: 1}",
    .gpus = 8};

}  // namespace

TEST_CASE("virtual ranks on a GPU, TP 2 x PP 2 x DP 2, compute what one CPU rank does", "[gpu]") {
  if (!has_gpu()) return;
  for (const char* model : {tiny_gpt, tiny_llama}) {
    TinyJob job = eight_ranks;
    job.model = model;
    const Plan plan = compile(tiny_job(job));
    check_equal(checked_run(plan, ExecutionDevice::cuda_f64), one_rank(job), 1e-10);
    const Execution run = checked_run(plan, ExecutionDevice::cuda_f32);
    check_equal(run, one_rank(job), 1e-4);
    check_memory(plan, run, true);
  }
}

TEST_CASE("ZeRO-3, zero-bubble and recomputing ranks on a GPU compute what one CPU rank does", "[gpu]") {
  if (!has_gpu()) return;
  for (const TinyJob& job :
       {TinyJob{.model = tiny_llama, .optimizer = "{zero_stage: 3}", .gpus = 4},
        TinyJob{.parallelism = "{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}", .gpus = 2},
        TinyJob{.parallelism = "{tensor_model_parallel_size: 2}",
        .more = "recompute: {granularity: full}\n",
        .gpus = 2}})
    check_equal(checked_run(compile(tiny_job(job)), ExecutionDevice::cuda_f64), one_rank(job), 1e-10);
}

TEST_CASE("gates of their own and recompute that stops early compute on a GPU what one CPU rank does",
          "[gpu]") {
  if (!has_gpu()) return;
  const std::string framework = "framework: {kernels: {separate_gate: true, recompute_stops_early: true}}\n";
  const Execution alone = checked_run(compile(tiny_job({.model = tiny_llama, .more = framework})));
  for (const char* recompute :
       {"", "recompute: {granularity: full}\n",
        "recompute: {granularity: selective, saved: [qkv, core_attention, fc1_gate]}\n"}) {
    const Plan plan = compile(tiny_job({.model = tiny_llama,
                                        .parallelism = "{tensor_model_parallel_size: 2}",
                                        .more = framework + recompute,
                                        .gpus = 2}));
    check_equal(checked_run(plan, ExecutionDevice::cuda_f64), alone, 1e-10);
    check_equal(checked_run(plan, ExecutionDevice::cuda_f32), alone, 1e-4);
  }
}

TEST_CASE("two runs on a GPU have the same bits", "[gpu]") {
  if (!has_gpu()) return;
  const Plan plan = compile(tiny_job(eight_ranks));
  const Execution a = checked_run(plan, ExecutionDevice::cuda_f32);
  const Execution b = checked_run(plan, ExecutionDevice::cuda_f32);
  CHECK(a.loss == b.loss);
  CHECK(compare(a.parameters, b.parameters, 0).error == 0);
}

TEST_CASE("in bf16 a GPU stays within what rounding explains", "[gpu]") {
  if (!has_gpu()) return;
  Job job = tiny_job(eight_ranks);
  job.training.precision = Dtype::bf16;
  const Execution run = checked_run(compile(job), ExecutionDevice::cuda_half);
  CHECK(compare(run.gradients, one_rank(eight_ranks).gradients, 5e-2).first == "");
}

TEST_CASE("a GPU times its instructions by its own clock", "[gpu]") {
  if (!has_gpu()) return;
  const Plan plan = compile(tiny_job(eight_ranks));
  ExecuteOptions options;
  options.device = ExecutionDevice::cuda_f32;
  options.steps = 3;
  options.timed = true;
  const Execution run = execute(plan, options);
  REQUIRE(run.failure == "");
  REQUIRE_FALSE(run.measured.empty());
  for (const std::vector<MeasuredStep>& rank : run.measured.ranks) {
    REQUIRE(rank.size() == 3);
    for (const MeasuredStep& step : rank) {
      std::int64_t busy = 0;
      for (const MeasuredInstruction& of : step.instructions) {
        CHECK(of.busy_ns <= of.end_ns - of.begin_ns);
        busy += of.busy_ns;
      }
      CHECK(busy > 0);
      CHECK(busy < step.end_ns - step.begin_ns);
    }
  }
  CHECK_THAT(measured_timeline(plan, run.measured).engine_reason, Catch::Contains(" GPU"));
}

TEST_CASE("NCCL with one rank runs every call that a plan can become", "[gpu]") {
  if (!has_gpu()) return;
  CHECK(load_plugin("cuda").functions->check_library() == "");
}

}  // namespace simrun
