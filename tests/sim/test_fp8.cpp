#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/summary.h"
#include "sim/attention_cost.h"
#include "sim/kernel_cost.h"
#include "sim/row_kernels.h"
#include "sim/simulate.h"
#include "tests/context_jobs.h"

// Linear layers in fp8, simulated.
namespace simrun {
namespace {

Plan one_layer(const std::vector<Override>& overrides) {
  return compile(context_job("", overrides, /*cp=*/1));
}

Picoseconds time_of(const Plan& plan, const std::string& label, Phase phase) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.label == label && what.phase == phase) return kernel_time(plan, what);
  FAIL("no " << label);
  return 0;
}

}  // namespace

TEST_CASE("fp8: a product that fills the GPU takes its time by the ratio of the peaks, but for its start") {
  const Gpu& gpu = context_job("", {}, 1).cluster.gpu;
  const GemmShape wide{.m = 8192, .n = 8192, .k = 8192, .input = Dtype::bf16, .output = Dtype::bf16};
  GemmShape narrow = wide;
  narrow.input = Dtype::fp8;
  // H100: 1,978.9 and 989.4 TFLOP/s, of which fp8 keeps 0.94. Filling the pipeline takes as long: 256 bytes
  // of a row, twice as many elements of fp8.
  CHECK(gemm_seconds(gpu, wide) / gemm_seconds(gpu, narrow) ==
        Approx(0.94 * 1978.9 / 989.4 * (8192 + 128) / (8192 + 256)));
}

TEST_CASE("fp8: a cast moves the bytes that it reads and writes, and tensorwise scaling reads once more") {
  // The gradient of fc2's output: 4,096 tokens x 1,024 read in bf16, written as rows and as columns.
  const auto seconds = [](double bytes) {
    const Gpu gpu = context_job("", {}, 1).cluster.gpu;
    return to_picoseconds(row_kernel_seconds(gpu, bytes));
  };
  constexpr double elements = 4096.0 * 1024;
  const auto plan_of = [](const char* recipe) {
    return one_layer({{"training.precision", "fp8"}, {"training.fp8_recipe", recipe}});
  };
  const Plan block = plan_of("blockwise"), tensor = plan_of("tensorwise");
  // A scale of 4 B per 128 elements of each copy.
  CHECK(time_of(block, "mlp_norm fp8 cast", Phase::forward) == seconds(elements * (2 + 2 * (1 + 4.0 / 128))));
  CHECK(time_of(tensor, "mlp_norm fp8 cast", Phase::forward) == seconds(elements * (2 + 2) + 4));
  CHECK(time_of(tensor, "mlp_norm fp8 largest", Phase::forward) == seconds(elements * 2 + 4));
}

TEST_CASE(
    "nvfp4: a product takes its time by the ratio of the peaks but for its start, and half of fp8's bytes") {
  Gpu gpu = context_job("", {}, 1).cluster.gpu;
  gpu.peak_flops[Dtype::fp4] = 2 * 1978.9e12;
  gpu.kernels.fp8_efficiency = 1;
  GemmShape fp8{.m = 8192, .n = 8192, .k = 8192, .input = Dtype::fp8, .output = Dtype::bf16};
  GemmShape fp4 = fp8;
  fp4.input = Dtype::fp4;
  CHECK(gemm_seconds(gpu, fp8) / gemm_seconds(gpu, fp4) == Approx(2.0 * (8192 + 256) / (8192 + 512)));
  fp8.m = fp4.m = 1;  // bound by the weight's bytes
  CHECK(gemm_bytes(fp8) - gemm_bytes(fp4) == Approx(8192.0 * 8193 / 2));
}

TEST_CASE("nvfp4: a cast reads a value twice and writes two copies of 9 / 16 B per element") {
  const Plan plan = one_layer({{"training.precision", "nvfp4"},
                               {"cluster.gpu", "{from: h100_sxm, peak_flops: {fp4: 4000 TFLOP/s}}"}});
  const auto seconds = [&](double bytes) {
    return to_picoseconds(row_kernel_seconds(plan.cluster.gpu, bytes));
  };
  constexpr double elements = 4096.0 * 1024;
  CHECK(time_of(plan, "mlp_norm fp4 largest", Phase::forward) == seconds(elements * 2 + 4));
  CHECK(time_of(plan, "mlp_norm fp4 cast", Phase::forward) == seconds(elements * (2 + 2 * 9.0 / 16) + 4));
}

TEST_CASE("fp8: computes faster than bf16 and holds less, in both engines") {
  const std::vector<Override> sizes{{"training.global_batch_size", "32"},
                                    {"model.num_hidden_layers", "4"},
                                    {"optimizer.zero_stage", "1"},
                                    {"parallelism.tensor_model_parallel_size", "2"},
                                    {"parallelism.sequence_parallel", "true"}};
  const Plan wide = one_layer(sizes);
  const Summary before = summarize(wide, simulate(wide));
  for (const char* recipe : {"delayed", "tensorwise", "blockwise"}) {
    CAPTURE(recipe);
    std::vector<Override> overrides = sizes;
    overrides.push_back({"training.precision", "fp8"});
    overrides.push_back({"training.fp8_recipe", recipe});
    overrides.push_back({"training.fp8_param_gather", "true"});
    const Plan plan = one_layer(overrides);
    const Timeline fast = simulate(plan);
    const Summary after = summarize(plan, fast);
    CHECK(after.compute_s < before.compute_s);
    CHECK(after.peak_memory_bytes < before.peak_memory_bytes);
    const Timeline simgrid = simulate(plan, {.engine = EngineChoice::simgrid});
    CHECK(simgrid.step >= fast.step);
    CHECK(static_cast<double>(simgrid.step) <=
          static_cast<double>(fast.step) * (1 + fast.contention_bound) + 1);
    CHECK(after.hardware_flops_per_step == before.hardware_flops_per_step);
  }
}

}  // namespace simrun
